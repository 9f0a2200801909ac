"""A job's life as a lane of segments: its waits, and what each attempt did. Pure.

    waiting ─ starting ─ running (failed) ─ backing off ─ waiting ─ starting ─ running (succeeded)

Between two runs there is a gap: the job had ended and was sent again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from longhaul.core.history import AttemptRecord, latest
from longhaul.core.lease import Lease, State
from longhaul.core.verdict import OutcomeClass
from longhaul.operations.runs import ORDER
from longhaul.operations.view import name_of

if TYPE_CHECKING:
    from longhaul.operations.stack import Stack

_PAGE: Final = 100  # jobs

Outcome = Literal["succeeded", "failed", "interrupted", "cancelled"]

_BY_THE_PLATFORM: Final = (
    OutcomeClass.INTERRUPTED,
    OutcomeClass.NOT_PLACED,
    OutcomeClass.REFUSED,
)
"""The platform ended the attempt, or gave it no place: no fault of the job's."""


class SegmentKind(StrEnum):
    WAITING = "waiting"  # for its message or for a slot
    BACKING_OFF = "backing off"
    STARTING = "starting"  # claimed; the task has not reported yet
    RUNNING = "running"


@dataclass(frozen=True)
class Segment:
    """`end` is None while it lasts. `record` is None where the job waits."""

    kind: SegmentKind
    begin: datetime
    end: datetime | None
    record: AttemptRecord | None = None

    def seconds(self, now: datetime) -> float:
        return max(0.0, ((self.end or now) - self.begin).total_seconds())


@dataclass(frozen=True)
class Lane:
    """One job, or several `together` under a name: then its row is that of the worst of them.

    `segments` are in order; `ended_at` is None until all have ended.
    """

    row: Lease
    attempts: Sequence[AttemptRecord]
    segments: Sequence[Segment]
    ended_at: datetime | None
    name: str
    jobs: int = 1

    @property
    def begin(self) -> datetime:
        return min((each.begin for each in self.segments), default=self.row.attempt.claimed_at)

    def waited_s(self, now: datetime) -> float:
        """For how long it waited in all, before attempts and between them."""
        return sum(each.seconds(now) for each in self.segments if each.record is None)

    def ran_s(self, now: datetime) -> float:
        """The length of its attempts in all."""
        return sum(each.seconds(now) for each in self.segments if each.record is not None)


def lane(row: Lease, attempts: Sequence[AttemptRecord]) -> Lane:
    """The lane of a job, from the attempts that are remembered."""
    segments = [segment for record in attempts for segment in _of_attempt(record)]
    waits_since = attempts[-1].ended_at if attempts else None
    if row.state is State.RELEASED and waits_since is not None:
        segments += _waits(waits_since, row.retry_at, None)
    elif row.state is State.CANCELLED and waits_since is not None and row.settled_at is not None:
        # No segment unless the job was cancelled while it waited.
        segments += _waits(waits_since, row.retry_at, row.settled_at)
    return Lane(
        row,
        attempts,
        segments,
        row.ended_at if row.state.is_terminal else None,
        name_of(row),
    )


def lanes_of(stack: "Stack", rows: Iterable[Lease]) -> Iterator[Lane]:
    """The lanes of jobs with all their remembered attempts, read a hundred jobs at a time."""
    wanted = iter(rows)
    while page := list(islice(wanted, _PAGE)):
        # Of most jobs the row has the only attempt.
        alone = {
            row.key: [latest(row)] for row in page if row.attempt.number == 1 and not row.is_mark
        }
        others = (row for row in page if row.key not in alone)
        attempts = {**alone, **stack.parts.leases.history(others)}
        yield from (lane(row, attempts[row.key]) for row in page)


def together(lanes: Sequence[Lane], name: str) -> Lane:
    """Several jobs in one lane."""
    ends = [each.ended_at for each in lanes if each.ended_at]
    return Lane(
        min((each.row for each in lanes), key=lambda row: ORDER.index(row.shown_state)),
        [record for each in lanes for record in each.attempts],
        [segment for each in lanes for segment in each.segments],
        max(ends) if len(ends) == len(lanes) else None,
        name,
        len(lanes),
    )


def span(lanes: Iterable[Lane], now: datetime) -> tuple[datetime, datetime]:
    """From the first begin to the last end; `now` is the end of what still lasts."""
    begins, ends = [], []
    for each in lanes:
        begins.append(each.begin)
        ends += [segment.end or now for segment in each.segments] or [now]
        ends += [each.ended_at] if each.ended_at else []
    return min(begins, default=now), max(ends, default=now)


def outcome(record: AttemptRecord) -> Outcome | None:
    """How an attempt ended; None while it goes on. A success counts if its output was kept."""
    if record.ended_at is None:
        return None
    if record.kind == OutcomeClass.SUCCEEDED:
        return "succeeded" if record.state is State.SUCCEEDED else "failed"
    if record.kind == OutcomeClass.CANCELLED:
        return "cancelled"
    return "interrupted" if record.kind in _BY_THE_PLATFORM else "failed"


def _of_attempt(record: AttemptRecord) -> Iterator[Segment]:
    if record.queued_at is not None:
        yield from _waits(record.queued_at, record.due_at, record.attempt.claimed_at)
    started, ended = record.attempt.started_at, record.ended_at
    yield Segment(SegmentKind.STARTING, record.attempt.claimed_at, started or ended, record)
    if started is not None:
        yield Segment(SegmentKind.RUNNING, started, max(ended, started) if ended else None, record)


def _waits(since: datetime, due: datetime | None, until: datetime | None) -> Iterator[Segment]:
    """The back-off, then the wait for the message and for a slot.

    Without an end both are shown: the wait begins when the back-off is due.
    """
    if due is not None and due > since and (until is None or until > since):
        yield Segment(SegmentKind.BACKING_OFF, since, min(due, until) if until else due)
        since = due
    if until is None or until > since:
        yield Segment(SegmentKind.WAITING, since, until)
