"""`longhaul cancel`."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import AsJson, Only, StageOption


@on_target
def cancel(
    *,
    jobs: Annotated[list[str], typer.Argument(metavar="JOB", help="Ids of the jobs.")],
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Cancel jobs, and all that descends from them: queued, between attempts, or running.

    A running job stops at its next progress report or beat. A job between attempts ends at once. A
    queued job ends when its message comes; an id of which nothing is known may be one, or a typo.
    Of a success, what descends from it is cancelled, from the top. An ended job stays as it is; the
    exit code is 1 unless it was cancelled before, or something below it was. The name of a backfill
    stands for all jobs that it has sent.

    Example: longhaul cancel flights-2013-01 flights-2013-02
    """
