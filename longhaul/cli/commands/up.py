"""`longhaul up`."""

from typing import Annotated

import typer

from longhaul.cli.extras import require
from longhaul.cli.project import chosen, default_work_dir
from longhaul.cli.terminal.options import EnforceRoles, WorkDir
from longhaul.cli.terminal.output import Output
from longhaul.local.running import LOOPBACK

DEFAULT_PORT = 4566
"""The port of other emulators of AWS."""


def up(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port; 0 picks a free one.")
    ] = DEFAULT_PORT,
    host: Annotated[
        str, typer.Option(help="Address; with Docker's bridge (172.17.0.1) containers get in.")
    ] = LOOPBACK,
    work_dir: WorkDir = None,
    *,
    iam: EnforceRoles = True,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin without what earlier starts have stored.")
    ] = False,
) -> None:
    """Start the embedded AWS with the stack deployed, in the foreground, until Ctrl-C.

    In a project it installs what the jobs import (requirements.txt) into .longhaul/packages, and
    deploys the project's jobs and settings, with at most two slots a stage and the short times of a
    machine without an account. A job that is changed is used from its next attempt on, and a new
    one a second after it is there. Other settings need a restart, which takes seconds.

    Objects, tables, messages, jobs and their logs outlive it, also when it is killed: the next
    start has them, and goes on with the jobs that ran.

    Prints when it is ready what there is and what to type next; where stdout is no terminal, one
    JSON line: endpoint, region and the stack's outputs. The other commands find it while it runs,
    with another --work-dir only through AWS_ENDPOINT_URL. Any AWS client reaches it through
    AWS_ENDPOINT_URL, and `sam local invoke` with the file sam-env.json in the work dir.

    Functions, tasks and job runs have the roles of the template, and what these do not allow is
    denied, with a line that names what is missing (docs/first-job.md#roles).

    Example: longhaul up --port 0
    """
    from longhaul.cli.local.address import check_address
    from longhaul.cli.local.work_dir import work_in

    require("local")
    folder = work_dir or default_work_dir()
    with work_in(folder):  # first: a second one in the same folder needs another, and no other port
        check_address(host, port)
        from longhaul.cli.local.serve import serve

        serve(
            Output(),
            host=host,
            port=port,
            work_dir=folder,
            project=chosen(),
            enforce_roles=iam,
            fresh=fresh,
        )
