"""`longhaul history`."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import AsJson, StageOption


@on_target
def history(
    *,
    job: Annotated[str, typer.Argument(help="The job's id.")],
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Show every attempt of a job: when it began, its wait and run time, how it ended and why.

    A redrive or a retry starts a new run, whose attempts continue the numbers of the last one.
    --json adds all times, adoptions, hand-overs, the execution and the log.

    Example: longhaul history flights-2013-01
    """
