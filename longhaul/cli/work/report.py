"""What `longhaul report` does."""

from collections.abc import Iterable
from datetime import timedelta
from multiprocessing.pool import ThreadPool
from pathlib import Path

from longhaul.cli.display.report import MAX_LISTED, Report
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.insight.cost import Pricing
from longhaul.cli.insight.prices import read_prices
from longhaul.cli.insight.timeline import Lane
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.selection import select_lanes
from longhaul.operations.asked import request_of

_AT_ONCE = 8  # requests that are read at the same time


def report(
    target: Target,
    *,
    file: Path,
    stage: str | None,
    older_than: timedelta | None,
    newer_than: timedelta | None,
    most: int,
) -> None:
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
