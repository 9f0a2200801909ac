"""Wait for jobs: read their rows until each has its outcome."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from longhaul.core.lease import Lease, State, job_key
from longhaul.core.ports import Clock, Leases
from longhaul.operations.submit import Problem, Submission

_MIN_PERIOD_S = 1.0
# A call reads a hundred rows. At this pace reading takes only a fraction of the period.
_S_PER_ROW = 0.005


@dataclass(frozen=True)
class Awaited:
    """One submission.

    `before` is the row before it was sent: only a newer row is about this message. Without a
    fingerprint it is of any work under that key. `again`: it starts a new run whatever the end of
    the one before was.
    """

    key: str
    fingerprint: str | None
    before: Lease | None
    again: bool = False


@dataclass(frozen=True)
class SubmittedJob:
    """A job as it was sent. It can be pickled, and waited for in another process.

    Attributes:
        job_id: Its id, also where the request had none.
        stage: The stage whose queue it was sent to.
        message_id: Of its message in SQS.
        awaited: What a wait compares the job's row with.
    """

    job_id: str
    stage: str
    message_id: str
    awaited: Awaited = field(repr=False, compare=False)


@dataclass(frozen=True)
class Standing:
    """The standing of a job. `done` and `succeeded` are final.

    A done one without a row was cancelled before it ran.
    """

    key: str
    lease: Lease | None
    done: bool
    conflict: bool = False

    @property
    def succeeded(self) -> bool:
        return (
            self.done
            and not self.conflict
            and self.lease is not None
            and self.lease.state is State.SUCCEEDED
        )


def conflicts(awaited: Awaited) -> bool:
    """Whether the dispatcher would dead-letter the message: its key belongs to another request."""
    row = awaited.before
    if row is None or row.fingerprint == awaited.fingerprint:
        return False
    # Behind a run that is being cancelled the message waits.
    is_in_use = not row.state.is_terminal and not row.cancel_requested_at
    return is_in_use or row.state is State.SUCCEEDED


@dataclass(frozen=True)
class Waiter:
    clock: Clock
    leases: Leases

    def before(self, stage: str, submissions: Iterable[Submission]) -> list[Awaited]:
        """What to wait for: one for each job id. Call it before the messages are sent."""
        fingerprints = {
            job_key(stage, each.job_id): each.request.fingerprint() for each in submissions
        }
        rows = self.leases.load_many(fingerprints)
        return [
            Awaited(key, fingerprint, rows.get(key)) for key, fingerprint in fingerprints.items()
        ]

    def standings_of(self, awaited: Sequence[Awaited]) -> list[Standing]:
        """The standing of each, now."""
        rows = self.leases.load_many(each.key for each in awaited)
        return [standing(each, rows.get(each.key)) for each in awaited]

    def watch(
        self, awaited: Sequence[Awaited], timeout_s: float = math.inf
    ) -> Iterator[Mapping[str, Standing]]:
        """The standing of all, at every look, until all are done. A done one is not read again.

        The last look is after `timeout_s`, whether they are done or not.
        """
        begun_at = self.clock.now()
        standings = {each.key: Standing(each.key, None, done=False) for each in awaited}
        waiting = {each.key: each for each in awaited}
        while True:
            for found in self.standings_of(list(waiting.values())):
                standings[found.key] = found
                if found.done:
                    del waiting[found.key]
            yield standings
            if not waiting:
                return
            left_s = timeout_s - (self.clock.now() - begun_at).total_seconds()
            if left_s <= 0:
                return
            self.clock.sleep(min(left_s, max(_MIN_PERIOD_S, _S_PER_ROW * len(waiting))))


def standing(awaited: Awaited, row: Lease | None) -> Standing:
    """What a row says about the message that was sent."""
    before = awaited.before
    if row is None:
        return Standing(awaited.key, None, done=False)
    if (
        before is not None
        and row.run == before.run
        and (awaited.again or _is_to_be_rerun(before, row))
    ):
        # Still the old run. The new one is queued, unless a cancel has covered its message: then
        # the row stays as it is.
        return Standing(awaited.key, None, done=row.cancelled_at != before.cancelled_at)
    if row.is_refused and awaited.fingerprint not in (None, row.fingerprint):
        # Other work was refused under the id. That ends nothing but itself.
        return Standing(awaited.key, None, done=False)
    if not row.is_mark and _is_of_other_work(awaited, row):
        return Standing(awaited.key, row, done=True, conflict=True)
    return Standing(awaited.key, row, done=row.is_finished)


def _is_of_other_work(awaited: Awaited, row: Lease) -> bool:
    return bool(awaited.fingerprint and row.fingerprint and row.fingerprint != awaited.fingerprint)


def conflicting(awaited: Sequence[Awaited], submissions: Sequence[Submission]) -> list[Problem]:
    """The submissions that the dispatcher would dead-letter, because another has their id."""
    bad = {each.key.partition("#")[2] for each in awaited if conflicts(each)}
    return [
        Problem(
            each.position,
            f"job_id {each.job_id!r} belongs to a different request that was sent before: "
            "give this one another",
        )
        for each in submissions
        if each.job_id in bad
    ]


def _is_to_be_rerun(before: Lease, row: Lease) -> bool:
    """Whether a message that was sent after `before` starts a new run, given the same run's row.

    A cancel that comes too late leaves a success, of which the message is a duplicate.
    """
    if before.cancel_requested_at:
        return row.state is not State.SUCCEEDED
    return before.state in (State.DEAD, State.CANCELLED)


def moved(before: Lease | None, after: Lease | None) -> bool:
    """Whether the job has changed enough for a line of output."""
    return _moment(before) != _moment(after)


def _moment(lease: Lease | None) -> tuple[State, int, datetime | None] | None:
    return (lease.state, lease.attempt.number, lease.cancel_requested_at) if lease else None
