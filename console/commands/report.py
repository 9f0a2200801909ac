"""`longhaul report`: what happened, as one HTML file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from console.errors import CommandError, ExitCode
from console.options import NewerThan, OlderThan, StageName, on_target
from console.output import Output
from console.prices import read_prices
from console.recorded import Most, recorded
from console.report import Report
from console.target import Target
from longhaul.domain.cost import Pricing
from longhaul.domain.timeline import Lane


@on_target
def report(
    target: Target,
    *,
    file: Annotated[Path, typer.Option("--output", "-o", help="Where to write it.")] = Path("longhaul-report.html"),
    stage: StageName = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    most: Most = 500,
) -> None:
    """Write what happened as one HTML file: timeline, outcomes, waits, retries, cost. It needs no server, no script and nothing from elsewhere.

    Example: longhaul report --newer-than 1d -o yesterday.html
    """
    out = Output()
    if not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", ExitCode.USAGE)
    lanes = recorded(out, target, stage=stage, older_than=older_than, newer_than=newer_than, most=most)
    write_report(target, lanes, file)
    out.line(str(file))


def write_report(target: Target, lanes: Iterable[Lane], file: Path) -> None:
    """Write the page about these jobs of that stack."""
    pricing, now = Pricing(read_prices(), target.settings), target.parts.clock.now()
    page = Report(str(target), [pricing.job(lane, now) for lane in lanes], pricing.prices, now)
    file.write_text(page.html(), encoding="utf-8")
