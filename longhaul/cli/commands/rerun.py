"""`longhaul rerun`."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import Afresh, AsJson, StageOption, params_option


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
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Run a job that has ended again, with its request or a changed one.

    One that died or was cancelled starts a new run of its id, and keeps its place in its pipeline.
    One that has succeeded runs as another job, `JOB-rerun-1`, which begins a tree of its own: what
    follows from it follows again. Each names the other in `longhaul status`. Prints the id.
    --param takes the place of the request's parameter of that name.

    Example: longhaul rerun flights-2013-01 --size large

    Example: longhaul rerun flights-2013-01 --tree --param 'rounded=true'
    """
