"""`longhaul rerun`."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import Afresh, AsJson, Only, StageOption, params_option


@on_target
def rerun(
    *,
    job: Annotated[str, typer.Argument(help="The job's id.")],
    params: Annotated[list[str] | None, params_option()] = None,
    size: Annotated[
        str | None, typer.Option("--size", help="tiny, small, medium, large or xlarge.")
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Run again all that began with the job's root.")
    ] = False,
    afresh: Afresh = False,
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Run a job that has ended again in its place, with its request or a changed one.

    It starts a new run of its id, and what it led to runs again, each in its place. A join behind
    it waits for what is new, and runs again with the outputs of all its members. With --only what
    followed is left alone. An output that it appended to gets the new rows in the place of the old.
    Prints the id. --param takes the place of the request's parameter of that name.

    Example: longhaul rerun flights-2013-01 --size large

    Example: longhaul rerun flights-2013-01 --tree --param 'rounded=true'
    """
