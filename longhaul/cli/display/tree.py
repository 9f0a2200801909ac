"""A job and its follow-ons as a tree of lines."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from types import MappingProxyType

from longhaul.cli.display.job import queued_text, row_of
from longhaul.domain.job_state import QUEUED
from longhaul.domain.waiting import Wait
from longhaul.trees import TreeJob

_NONE: Mapping[str, Wait] = MappingProxyType({})

# Jobs that need attention are shown before others.
_URGENCY = ("DEAD", "UNREADABLE", "CANCELLING", "RUNNING", "RELEASED", "CANCELLED", "SUCCEEDED")


def rows_of(
    job: TreeJob, now: datetime, limit: int, queued: Mapping[str, Wait] = _NONE
) -> Iterator[list[str]]:
    """A row as `display.job.row_of` has it for each line: the job itself, then its follow-ons.

    Of the siblings in a stage at most `limit` have a line; one more line counts the rest, and one
    says for how many a join waits. `queued`: by stage, what its queued jobs wait for.
    """
    yield _line(job, now) if job.is_job else _cells(job.job_id, job.stage)
    yield from _below(job, now, limit, queued, "")


def _below(
    job: TreeJob, now: datetime, limit: int, queued: Mapping[str, Wait], indent: str
) -> Iterator[list[str]]:
    lines: list[tuple[TreeJob | None, list[str]]] = []
    for _, siblings in groupby(job.children, key=lambda child: child.stage):
        lines += _of_stage(list(siblings), now, limit, queued)
    for n, (child, (name, job_id, *cells)) in enumerate(lines):
        branch, below = ("└─ ", "   ") if n == len(lines) - 1 else ("├─ ", "│  ")
        yield [f"{indent}{branch}{name}", f"{indent}{branch}{job_id}", *cells]
        if child is not None:
            yield from _below(child, now, limit, queued, indent + below)


def _of_stage(
    siblings: Sequence[TreeJob], now: datetime, limit: int, queued: Mapping[str, Wait]
) -> Iterator[tuple[TreeJob | None, list[str]]]:
    """The lines of the siblings of one stage, each with the job below which others stand."""
    shown = _most_urgent([each for each in siblings if each.state in _URGENCY], limit)
    yield from ((each, _line(each, now)) for each in shown)
    stage = siblings[0].stage
    rest = Counter(each.state for each in siblings if each not in shown and not each.waits_for)
    if rest:
        states = ", ".join(f"{count:,} {state}" for state, count in rest.most_common())
        if rest[QUEUED] and stage in queued:
            states += f"; {queued_text(queued[stage])}"
        yield None, _cells(f"… {rest.total():,} more", stage, why=states)
    for each in siblings:
        if each.waits_for:
            yield None, _cells(f"waits for {each.waits_for:,} of {each.collects:,}", stage)


def _line(job: TreeJob, now: datetime) -> list[str]:
    if job.lease is not None:
        return row_of(job.lease, now)
    return _cells(job.job_id, job.stage, job.state)


def _cells(text: str, stage: str, state: str = "", why: str = "") -> list[str]:
    """A line that is of no row."""
    return [text, text, "", state, stage, "", "", "", why]


def _most_urgent(siblings: Sequence[TreeJob], limit: int) -> list[TreeJob]:
    """At most `limit` of them, in their own order."""
    if len(siblings) <= limit:
        return list(siblings)
    first = sorted(range(len(siblings)), key=lambda n: (_URGENCY.index(siblings[n].state), n))
    return [siblings[n] for n in sorted(first[:limit])]
