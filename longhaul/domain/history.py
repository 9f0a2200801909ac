"""A job's attempts, as people ask for them: when each was waited for, began and ended, and how. Pure.

The row tells of the attempt that runs. One that has ended is kept as an item beside the row, written in the transaction that ends it, so that the two never
differ. There is room for `KEPT`; a later attempt takes the place of the one `KEPT` before it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from longhaul.domain.lease import AttemptId, Lease, State

KEPT = 50
"""How many attempts of a job are remembered. A run has at most 100 failures and 20 interruptions; nobody reads the first of so many."""


@dataclass(frozen=True)
class Attempt:
    """One attempt of a job. Times are aware UTC, and None where nothing is known."""

    key: str
    stage: str
    run: int
    attempt: int
    size: str
    capacity: str  # a Fargate capacity provider
    claimed_at: datetime
    queued_at: datetime | None = None  # since when the job waited: its message was sent, or the attempt before ended
    due_at: datetime | None = None  # end of the back-off before it, if there was one
    started_at: datetime | None = None  # its task's first word
    ended_at: datetime | None = None  # None: it runs
    task_from: datetime | None = None  # from when its task is paid for, as ECS told at its end
    task_until: datetime | None = None
    beats: int = 0
    beat_ages_s: tuple[
        int, ...
    ] = ()  # seconds since the claim, of the latest of them; none where an older version beat
    adoptions: int = 0  # how often its message was received anew while it ran
    hand_overs: int = 0  # how often its message was let go, because SQS would hold it no longer
    progress: dict[str, Any] = field(default_factory=dict)  # the runner's last report
    task_arn: str | None = None
    state: State = State.RUNNING  # what its end made of the job
    kind: str | None = None  # class of its outcome
    reason: str | None = None

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.key, self.run, self.attempt)

    @property
    def beat_times(self) -> tuple[datetime, ...]:
        """When its latest beats came, to the second."""
        return tuple(self.claimed_at + timedelta(seconds=age_s) for age_s in self.beat_ages_s)


def running(row: Lease) -> Attempt:
    """The attempt that owns the row."""
    execution = row.input
    return Attempt(
        key=row.key,
        stage=row.stage,
        run=row.run,
        attempt=row.attempt,
        size=execution.size,
        capacity=execution.capacity,
        claimed_at=row.claimed_at,
        # The row keeps what the attempt before left there, until this one ends.
        queued_at=row.settled_at or row.first_sent_at,
        due_at=row.retry_at,
        started_at=row.started_at,
        beats=row.beats,
        beat_ages_s=row.beat_ages_s,
        adoptions=row.adoptions,
        hand_overs=row.hand_overs,
        progress=row.progress,
        task_arn=row.task_arn,
    )


def ended(before: Lease, after: Lease) -> Attempt:
    """The attempt that owned `before`, and made it `after` by its end."""
    return replace(
        running(before),
        ended_at=after.settled_at,
        task_arn=after.task_arn,
        task_from=after.task_from,
        task_until=after.task_until,
        state=after.state,
        kind=after.last_class,
        reason=after.last_error,
    )


def latest(row: Lease) -> Attempt:
    """The row's attempt from the row alone. Once it has settled, what the row says of a wait it says of the next one's."""
    if not row.has_settled(row.id):
        return running(row)
    return replace(ended(row, row), queued_at=row.first_sent_at, due_at=None)


def remembered(row: Lease) -> Sequence[int]:
    """One attempt for each place that an item may have; the place of one that runs still has the attempt `KEPT` before it."""
    return range(max(1, row.attempt - KEPT + 1), row.attempt + 1)


def history(row: Lease, kept: Iterable[Attempt]) -> list[Attempt]:
    """All that is known of the job's attempts, in their order. Of what ended under a version that kept no history, only the latest is."""
    known = {each.attempt: each for each in kept}
    if not row.is_mark and (row.attempt not in known or not row.has_settled(row.id)):
        known[row.attempt] = latest(row)
    return [known[n] for n in sorted(known)]
