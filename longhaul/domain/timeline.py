"""A job's life as a lane of segments: what it waited for, what each attempt did, and how it went. Pure; for whoever draws it.

    waiting ─ starting ─ running (failed) ─ backing off ─ waiting ─ starting ─ running (succeeded)

Between two runs there is a gap: the job had ended, and somebody sent it again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from longhaul.domain.history import Attempt
from longhaul.domain.lease import Lease, State
from longhaul.domain.outcome import OutcomeClass


class SegmentKind(StrEnum):
    WAITING = "waiting"  # its message in the queue, or it for a slot
    BACKING_OFF = "backing off"
    STARTING = "starting"  # claimed; the task has not said a word
    RUNNING = "running"


@dataclass(frozen=True)
class Segment:
    """`end` is None while it goes on. `attempt` is None where the job waits."""

    kind: SegmentKind
    begin: datetime
    end: datetime | None
    attempt: Attempt | None = None

    def seconds(self, now: datetime) -> float:
        return max(0.0, ((self.end or now) - self.begin).total_seconds())


@dataclass(frozen=True)
class Lane:
    """One job. `segments` in their order; `ended_at` is None until the job has."""

    row: Lease
    attempts: Sequence[Attempt]
    segments: Sequence[Segment]
    ended_at: datetime | None

    @property
    def begin(self) -> datetime:
        return min((each.begin for each in self.segments), default=self.row.claimed_at)

    def seconds(self, now: datetime, *kinds: SegmentKind) -> float:
        """How long it did these, together."""
        return sum(each.seconds(now) for each in self.segments if each.kind in kinds)


def lane(row: Lease, attempts: Sequence[Attempt]) -> Lane:
    """The life of a job, as far as its attempts are remembered."""
    segments = [segment for attempt in attempts for segment in _of_attempt(attempt)]
    waits_since = attempts[-1].ended_at if attempts else None
    if row.state is State.RELEASED and waits_since is not None:
        segments += _waits(waits_since, row.retry_at, None)
    elif row.state is State.CANCELLED and waits_since is not None and row.settled_at is not None:
        segments += _waits(
            waits_since, row.retry_at, row.settled_at
        )  # nothing, unless it was cancelled while it waited
    return Lane(row, attempts, segments, (row.settled_at or row.claimed_at) if row.state.is_terminal else None)


def span(lanes: Iterable[Lane], now: datetime) -> tuple[datetime, datetime]:
    """From the first beginning to the last end; `now` stands for what goes on."""
    begins, ends = [], []
    for each in lanes:
        begins.append(each.begin)
        ends += [segment.end or now for segment in each.segments] or [now]
        ends += [each.ended_at] if each.ended_at else []
    return min(begins, default=now), max(ends, default=now)


def went_wrong(attempt: Attempt) -> bool:
    """Whether an attempt ended, and was for nothing."""
    return attempt.ended_at is not None and not (
        attempt.kind == OutcomeClass.SUCCEEDED and attempt.state is State.SUCCEEDED
    )


def _of_attempt(attempt: Attempt) -> Iterator[Segment]:
    if attempt.queued_at is not None:
        yield from _waits(attempt.queued_at, attempt.due_at, attempt.claimed_at)
    started, ended = attempt.started_at, attempt.ended_at
    yield Segment(SegmentKind.STARTING, attempt.claimed_at, started or ended, attempt)
    if started is not None:
        yield Segment(SegmentKind.RUNNING, started, max(ended, started) if ended else None, attempt)


def _waits(since: datetime, due: datetime | None, until: datetime | None) -> Iterator[Segment]:
    """The back-off, then the wait for the message and for a slot. Without an end the second begins only when the first is over."""
    if due is not None and due > since and (until is None or until > since):
        yield Segment(SegmentKind.BACKING_OFF, since, min(due, until) if until else due)
        since = due
    if until is None or until > since:
        yield Segment(SegmentKind.WAITING, since, until)
