"""`longhaul report`."""

from collections.abc import Iterable
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli.display.report import MAX_LISTED, Report
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.insight.cost import Pricing
from longhaul.cli.insight.prices import read_prices
from longhaul.cli.insight.timeline import Lane
from longhaul.cli.target import Target
from longhaul.cli.terminal.options import NewerThan, OlderThan, StageOption, on_target
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.selection import Most, select_lanes
from longhaul.operations.asked import request_of

_AT_ONCE = 8  # requests that are read at the same time


@on_target
def report(
    target: Target,
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
    out = Output()
    if not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", ExitStatus.USAGE)
    lanes = select_lanes(
        out, target, stage=stage, older_than=older_than, newer_than=newer_than, most=most
    )
    write_report(target, lanes, file)
    out.line(str(file))


def write_report(target: Target, lanes: Iterable[Lane], file: Path) -> None:
    """Write the report about these jobs."""
    pricing, now = Pricing(read_prices(), target.settings), target.parts.clock.now()
    jobs = [pricing.job(lane, now) for lane in lanes]
    rows, requests = [job.lane.row for job in jobs[:MAX_LISTED]], target.parts.requests
    with ThreadPool(_AT_ONCE) as pool:
        asked = pool.map(lambda row: request_of(row, requests), rows)
    found = {row.key: request for row, request in zip(rows, asked, strict=True) if request}
    page = Report(str(target), jobs, pricing.prices, now, found)
    file.write_text(page.html(), encoding="utf-8")
