"""One beat of the heartbeat: look at the lease, decide. Pure."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from longhaul.domain import schedule
from longhaul.domain.durations import format_duration
from longhaul.domain.lease import AttemptId, Lease
from longhaul.settings import LeaseSettings

KillReason = Literal["JobStalled", "JobCancelled", "LeaseLost"]
"""Names of the errors with which the heartbeat branch fails; the Parallel state catches exactly these."""


@dataclass(frozen=True)
class End:
    """The attempt has settled: the heartbeat branch ends quietly."""


@dataclass(frozen=True)
class Kill:
    """The heartbeat branch fails with this error, which stops the job."""

    reason: KillReason
    cause: str


@dataclass(frozen=True)
class HandOver:
    """SQS will not hold this receive much longer: make the message visible, so that a fresh receive carries on. The job never notices."""

    receipt_handle: str
    wait_s: int


@dataclass(frozen=True)
class Extend:
    """Extend the message's visibility to cover the next wait. Without a handle only the row is kept up."""

    receipt_handle: str | None
    visibility_s: int
    wait_s: int


Beat = End | Kill | HandOver | Extend

# Reports come every few seconds, and one that is not taken is made anew.
_REPORT_OVERDUE_S = 60

BEATS_KEPT = 60
"""Of how many beats an attempt's times are kept. Where they come every five minutes: of five hours."""


def decide_beat(lease: Lease | None, attempt: AttemptId, numbers: LeaseSettings, now: datetime) -> Beat:
    """What the beat of `attempt` does, given its row."""
    if lease is None:
        return Kill("LeaseLost", "the lease row is gone")
    if lease.has_settled(attempt):
        return End()
    if not lease.owns(attempt):
        return Kill("LeaseLost", f"the lease is held by run {lease.run}, attempt {lease.attempt} ({lease.state})")
    if lease.cancel_requested_at:
        return Kill("JobCancelled", f"cancelled at {lease.cancel_requested_at.isoformat(timespec='seconds')}")
    age_s = (now - lease.claimed_at).total_seconds()
    if lease.progress_at is None and age_s >= numbers.start_timeout_s:
        return Kill("JobStalled", f"the task gave no sign of life within {format_duration(numbers.start_timeout_s)}")
    wait_s = schedule.interval_s(age_s, numbers)
    if lease.progress_at and (silent_s := (now - lease.progress_at).total_seconds()) >= lease.stall_timeout_s:
        if _could_have_reported(lease, lease.progress_at):
            limit = format_duration(lease.stall_timeout_s)
            return Kill("JobStalled", f"no progress for {format_duration(silent_s)} (stall_timeout {limit})")
        wait_s = numbers.beat_floor_s
    if lease.receipt_handle is None or lease.received_at is None:
        return Extend(None, schedule.visibility_s(wait_s, 0, numbers), wait_s)
    held_s = (now - lease.received_at).total_seconds()
    if held_s >= numbers.hand_over_age_s:
        return HandOver(lease.receipt_handle, wait_s)
    return Extend(lease.receipt_handle, schedule.visibility_s(wait_s, held_s, numbers), wait_s)


def _could_have_reported(lease: Lease, progress_at: datetime) -> bool:
    """Whether the row took a beat when a report was overdue already.

    It took none where DynamoDB took no writes: then the runner's reports came to nothing as well, and its silence says nothing. The next beat comes soon, and
    finds what the runner has reported by then, or that it could have.
    """
    overdue_s = min(_REPORT_OVERDUE_S, lease.stall_timeout_s / 2)
    silent_from_s = (progress_at - lease.claimed_at).total_seconds()
    return bool(lease.beat_ages_s) and lease.beat_ages_s[-1] >= silent_from_s + overdue_s


def beaten(lease: Lease, now: datetime) -> Lease:
    """The row after a beat of its attempt: one more is counted, and the times of the newest `BEATS_KEPT` are kept, in whole seconds since the claim.

    What the row says becomes two values to set, and nothing to add: a write that is repeated, because its answer was lost, counts once. Of two heartbeats of one
    attempt that cross, which Step Functions makes of an invocation that it gave up on, one may go uncounted.
    """
    age_s = max(0, int((now - lease.claimed_at).total_seconds()))  # rounded down: no beat comes after its attempt's end
    return replace(lease, beats=lease.beats + 1, beat_ages_s=(*lease.beat_ages_s, age_s)[-BEATS_KEPT:])
