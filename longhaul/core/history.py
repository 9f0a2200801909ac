"""A job's attempts: when each was waited for, began and ended, and how. Pure.

The row has the attempt that runs. An attempt that has ended is kept as an item beside the row,
written in the transaction that ends it, so that the two never differ. There is room for `KEPT`: a
later attempt replaces the one `KEPT` before it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from longhaul.core.lease import Attempt, AttemptId, Lease, State
from longhaul.core.results import Results

KEPT = 50
"""Attempts of a job that are kept.

A run has at most 100 failures and 20 interruptions, and as many refusals as a lack of room brings;
the earliest of these are of no interest.
"""


@dataclass(frozen=True)
class AttemptRecord:
    """An attempt with what led to it and how it ended.

    Times are aware UTC, and None where they are unknown.
    """

    key: str
    stage: str
    run: int
    attempt: Attempt
    size: str
    capacity: str  # a Fargate capacity provider
    queued_at: datetime | None = None  # its message was sent, or the previous attempt ended
    due_at: datetime | None = None  # end of the back-off before it, if there was one
    ended_at: datetime | None = None  # None: it runs
    saved_at: datetime | None = None  # it last stored something for the next one
    saved_bytes: int = 0  # what the job had stored by then, or when the attempt began
    state: State = State.RUNNING  # of the job, after the attempt's end
    kind: str | None = None  # class of its outcome
    reason: str | None = None
    results: Results | None = None  # of an attempt that succeeded

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.key, self.run, self.attempt.number)

    @property
    def beat_times(self) -> tuple[datetime, ...]:
        """When its latest beats came, to the second."""
        claimed_at = self.attempt.claimed_at
        return tuple(claimed_at + timedelta(seconds=age_s) for age_s in self.attempt.beat_ages_s)


def running(row: Lease) -> AttemptRecord:
    """The attempt that owns the row."""
    execution = row.input
    return AttemptRecord(
        key=row.key,
        stage=row.stage,
        run=row.run,
        attempt=row.attempt,
        size=execution.size,
        capacity=execution.capacity,
        # The previous attempt's end stays in the row until this one ends.
        queued_at=row.settled_at or row.receive.first_sent_at,
        due_at=row.retry_at,
        saved_at=row.saved_at if row.has_saved else None,
        saved_bytes=row.saved_bytes,
    )


def ended(before: Lease, after: Lease) -> AttemptRecord:
    """The attempt that owned `before`, whose end made it `after`."""
    return replace(
        running(before),
        attempt=after.attempt,
        ended_at=after.settled_at,
        state=after.state,
        kind=after.last_class,
        reason=after.last_error,
        results=after.results,
    )


def latest(row: Lease) -> AttemptRecord:
    """The row's attempt, from the row alone.

    After a settle, `settled_at` and `retry_at` describe the next attempt's wait.
    """
    if not row.has_settled(row.id):
        return running(row)
    return replace(ended(row, row), queued_at=row.receive.first_sent_at, due_at=None)


def remembered(row: Lease) -> Sequence[int]:
    """Numbers of the attempts that may be kept as items, one for each place.

    The place of an attempt that runs still holds the one `KEPT` before it.
    """
    return range(max(1, row.attempt.number - KEPT + 1), row.attempt.number + 1)


def history(row: Lease, kept: Iterable[AttemptRecord]) -> list[AttemptRecord]:
    """All known attempts of the job, in their order."""
    known = {each.attempt.number: each for each in kept}
    if not row.is_mark and not row.has_settled(row.id):
        known[row.attempt.number] = latest(row)
    return [known[n] for n in sorted(known)]
