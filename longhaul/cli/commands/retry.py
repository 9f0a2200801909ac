"""`longhaul retry`."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import Afresh, AsJson, Only, StageOption


@on_target
def retry(
    *,
    jobs: Annotated[list[str], typer.Argument(metavar="JOB", help="Ids of the jobs.")],
    afresh: Afresh = False,
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Run dead or cancelled jobs again from their stored requests, as new runs of the same ids.

    Of a success, the jobs that descend from it and died or were cancelled are run again. Without
    such jobs it is refused: `longhaul rerun` runs a success again. The name of a backfill stands
    for all its jobs. If a job that is named cannot be retried, none is sent. Those below it, and
    those whose request is no longer kept, are named at the end, and the others are sent. A dead job
    goes on from what it has stored, if it has.

    Example: longhaul retry flights-2013-01
    """
