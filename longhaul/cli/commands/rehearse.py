"""`longhaul rehearse`."""

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import runs
from longhaul.cli.terminal.options import AsJson


@runs
def rehearse(
    *,
    profile: Annotated[str | None, typer.Option("--profile", help="AWS profile.")] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(
            "--context", "-c", metavar="KEY=VALUE", help="Settings, as for `longhaul deploy`."
        ),
    ] = None,
    file: Annotated[
        Path,
        typer.Option("--output", "-o", help="The page; JSON of the same name comes beside it."),
    ] = Path("longhaul-rehearsal.html"),
    as_json: AsJson = False,
) -> None:
    """Ask AWS itself what it would say to a deployment, and create nothing that stays.

    It asks IAM about the policies and the rights of each role, Step Functions about the state
    machine and each of its states, EventBridge about the rules, CloudFormation about the whole
    template (by a change set that is never executed, and is deleted at once), and the account about
    quotas and settings that a deployment meets. It says what it calls before it calls. What the
    credentials may not ask is "not asked", and no success.

    The exit code is 1 if there is a problem. The report holds no account ids.

    Example: longhaul rehearse --profile production -o before-deployment.html
    """
