"""Short lists that are read when a person asks: schedules, tables, and where data comes from."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

from longhaul.cli.display.text import age, moment_text, size_text
from longhaul.cli.extras import tables_of
from longhaul.cli.target import Target
from longhaul.operations.lineage import OriginReader, Wanted, place_of, upstream
from longhaul.operations.schedules import schedules


@dataclass(frozen=True)
class ShortList:
    """What the template shows; `empty` is said where there are no rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    empty: str


def schedule_list(target: Target) -> ShortList:
    """The schedules, with their next firings where what counts them is installed."""
    now, rows = target.parts.clock.now(), []
    for each in schedules(target):
        following = "" if each.is_on else "off"
        if each.is_on and find_spec("aws_croniter"):  # it comes with the extra `local`
            from longhaul.local.firing import following as fires  # noqa: PLC0415

            at = fires(each.expression, each.zone, each.made_at, now)
            following = f"in {age(at, now)} ({moment_text(at)})" if at else "never"
        rows.append([each.stage, each.expression, each.zone, following])
    columns = ("Stage", "When", "Time zone", "Next")
    return ShortList("Schedules", columns, rows, "No stage has a schedule.")


def table_list(target: Target) -> ShortList:
    """The tables of the stack's databases.

    Raises:
        CommandError: what reads them is not installed.
    """
    now, rows = target.parts.clock.now(), []
    for table, holds in tables_of(target, "pyiceberg").all():
        sizes = [f"{holds.get(each, 0):,}" for each in ("rows", "files")]
        changed = f"{age(now, holds['at'])} ago" if holds else "never"
        job = holds.get("job", "")
        rows.append([".".join(table.name()), *sizes, size_text(holds.get("size", 0)), changed, job])
    columns = ("Table", "Rows", "Files", "Size", "Changed", "By")
    return ShortList("Tables", columns, rows, "No job has written a table.")


def lineage_list(target: Target, data: str) -> ShortList:
    """Which attempts wrote data, and from what: each place before what that was made of.

    Raises:
        InvalidRequestError: it is no place of data.
        CommandError: what reads a table is not installed.
    """
    place, rows = place_of(data, target.settings.paths), []
    look = OriginReader(target.client("s3"), partial(tables_of, target, "pyiceberg")).look
    for step in upstream(Wanted(place), look):
        indent, by = "\u2003" * step.depth, step.writer
        if by is None:
            rows.append([f"{indent}{step.wanted.place}", step.version, "", "", step.known.note])
        else:
            stage, _, job_id = by.key.partition("#")
            at = moment_text(by.at) if by.at else ""
            rows.append([f"{indent}by {stage}", "", job_id, f"{by.run}, {by.attempt}", at])
    columns = ("Data", "Version", "By", "Run, attempt", "When, or why not known")
    return ShortList(f"Lineage of {place}", columns, rows, "")
