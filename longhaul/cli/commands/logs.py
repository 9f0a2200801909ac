"""`longhaul logs`."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import AsJson, Only, StageOption


@on_target
def logs(
    *,
    job: Annotated[str, typer.Argument(help="The job's id.")],
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Which attempt.", show_default="the latest")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            "-f",
            help="Go on with new lines, attempt after attempt, until the job and all that"
            " descends from it have ended.",
        ),
    ] = False,
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Print the log of a job's attempt, and of the latest ones of all that descends from it.

    Lines of the runner are shown as time, level and message, other lines as they were written.
    --json gives time, text and attempt of each.

    Example: longhaul logs flights-2013-01 --attempt 1

    Example: longhaul logs flights-2013-01 --follow
    """
