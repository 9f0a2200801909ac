"""`longhaul report`."""

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import Most, NewerThan, OlderThan, StageOption


@on_target
def report(
    *,
    file: Annotated[Path, typer.Option("--output", "-o", help="Where to write it.")] = Path(
        "longhaul-report.html"
    ),
    stage: StageOption = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    most: Most = 10_000,
) -> None:
    """Write a report as one HTML file: timeline, outcomes, waits, retries, cost.

    It needs no server, runs no script and loads nothing. Its numbers are those of all jobs; it
    draws and lists 500 of them: open ones, then the latest that ended.

    Example: longhaul report --newer-than 1d -o yesterday.html
    """
