"""A job and its follow-ons as a tree of lines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

from longhaul.cli.display.job import row_of
from longhaul.cli.insight.family import Member, waits
from longhaul.domain.lease import State
from longhaul.domain.pipeline import Pipeline
from longhaul.operations.view import QUEUED, shown_state

# Jobs that need attention are shown before others.
_URGENCY = (State.DEAD, State.RUNNING, State.RELEASED, State.CANCELLED, State.SUCCEEDED)


def rows_of(member: Member, now: datetime, limit: int, pipeline: Pipeline) -> Iterator[list[str]]:
    """The cells of `COLUMNS`, a row for each line: the job itself, then its follow-ons.

    Of the siblings in a stage at most `limit` have a line; one more line counts the rest, and one
    says for how many a join waits.
    """
    yield row_of(member.lease, now)
    yield from _below(member, now, limit, pipeline, "")


def _below(
    member: Member, now: datetime, limit: int, pipeline: Pipeline, indent: str
) -> Iterator[list[str]]:
    stages = [
        list(siblings)
        for _, siblings in groupby(member.children, key=lambda child: child.lease.stage)
    ]
    for siblings in stages:
        stage = siblings[0].lease.stage
        shown = _most_urgent(siblings, limit)
        rest = Counter(shown_state(each.lease) for each in siblings if each not in shown)
        rest += Counter({QUEUED: member.unclaimed.get(stage, 0)})
        more = []
        if rest:
            states = ", ".join(f"{count:,} {state}" for state, count in rest.most_common())
            more.append([f"… {rest.total():,} more", "", "", stage, "", "", "", states])
        if siblings is stages[-1]:
            more += _waiting(member, pipeline)
        for child in shown:
            is_last = siblings is stages[-1] and child is shown[-1] and not more
            branch, below = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            name, *cells = row_of(child.lease, now)
            yield [f"{indent}{branch}{name}", *cells]
            yield from _below(child, now, limit, pipeline, indent + below)
        for line in more:
            is_last = siblings is stages[-1] and line is more[-1]
            yield [f"{indent}{'└─ ' if is_last else '├─ '}{line[0]}", *line[1:]]


def _waiting(member: Member, pipeline: Pipeline) -> Iterator[list[str]]:
    """A line for each join of the job that still waits."""
    lease = member.lease
    # Rows of an earlier version do not say what they open.
    opens = lease.opens or pipeline.opened_by(lease.stage, is_first=lease.lineage is None)
    for join in opens:
        if join in pipeline.joins and lease.state is State.SUCCEEDED:
            left, size = waits(member, join, pipeline)
            if left:
                yield [f"waits for {left:,} of {size:,}", "", "", join, "", "", "", ""]


def _most_urgent(siblings: Sequence[Member], limit: int) -> list[Member]:
    """At most `limit` of them, in their own order."""
    if len(siblings) <= limit:
        return list(siblings)
    first = sorted(
        range(len(siblings)), key=lambda n: (_URGENCY.index(siblings[n].lease.state), n)
    )[:limit]
    return [siblings[n] for n in sorted(first)]
