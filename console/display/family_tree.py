"""A job and its follow-ons as a tree of lines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

from console.display.job import row_of
from console.insight.family import Member
from console.operations.view import QUEUED, shown_state
from longhaul.domain.lease import State

# Jobs that need attention come first.
_URGENCY = (State.DEAD, State.RUNNING, State.RELEASED, State.CANCELLED, State.SUCCEEDED)


def rows_of(member: Member, now: datetime, limit: int) -> Iterator[list[str]]:
    """The cells of `COLUMNS`, a row for each line: the job itself, then its follow-ons.

    Of the siblings in a stage at most `limit` have a line; one more line counts the rest.
    """
    yield row_of(member.lease, now)
    yield from _below(member, now, limit, "")


def _below(member: Member, now: datetime, limit: int, indent: str) -> Iterator[list[str]]:
    stages = [
        list(siblings)
        for _, siblings in groupby(member.children, key=lambda child: child.lease.stage)
    ]
    for siblings in stages:
        stage = siblings[0].lease.stage
        shown = _most_urgent(siblings, limit)
        rest = Counter(shown_state(each.lease) for each in siblings if each not in shown)
        rest += Counter({QUEUED: member.unclaimed.get(stage, 0)})
        for child in shown:
            is_last = siblings is stages[-1] and child is shown[-1] and not rest
            branch, below = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            name, *cells = row_of(child.lease, now)
            yield [f"{indent}{branch}{name}", *cells]
            yield from _below(child, now, limit, indent + below)
        if rest:
            branch = "└─ " if siblings is stages[-1] else "├─ "
            said = ", ".join(f"{count:,} {state}" for state, count in rest.most_common())
            yield [f"{indent}{branch}… {rest.total():,} more", "", stage, "", "", "", said]


def _most_urgent(siblings: Sequence[Member], limit: int) -> list[Member]:
    """At most `limit` of them, in their own order."""
    if len(siblings) <= limit:
        return list(siblings)
    chosen = sorted(
        range(len(siblings)), key=lambda n: (_URGENCY.index(siblings[n].lease.state), n)
    )[:limit]
    return [siblings[n] for n in sorted(chosen)]
