"""The heartbeat: the wait between beats, and what one beat decides. Pure; in seconds."""

import math
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from longhaul.core.durations import format_duration
from longhaul.core.lease import Attempt, AttemptId, Lease
from longhaul.core.settings import QUEUE_VISIBILITY_S, SQS_VISIBILITY_CAP_S, LeaseSettings

KillReason = Literal["JobStalled", "JobCancelled", "LeaseLost"]
"""Errors with which the heartbeat branch fails; the Parallel state catches exactly these."""


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
    """SQS will not hold this receive much longer: make the message visible, to be received again.

    The job runs on.
    """

    receipt_handle: str
    wait_s: int


@dataclass(frozen=True)
class Extend:
    """Extend the message's visibility to cover the next wait.

    Without a handle only the row is written: SQS does not hold the message, or for long enough.
    """

    receipt_handle: str | None
    visibility_s: int
    wait_s: int


Beat = End | Kill | HandOver | Extend

# Reports come every few seconds, and one that fails is made again.
_REPORT_OVERDUE_S = 60
# This number of reports is due before the runner counts as silent: three of them may be lost.
_REPORTS_UNTIL_OVERDUE = 4
# The runner looks once in a period, and may do so just too early for a report.
_LATE_PERIODS = 2
# A report with nothing new to say waits this many times as long. It still shows that the runner
# lives, and whether the job was cancelled.
_WITHOUT_NEWS = 3


def least_stall_timeout_s(timing: LeaseSettings) -> int:
    """The shortest stall timeout: half of it must have room for the reports that may be lost.

    A healthy job with a shorter one looks stalled between two reports. Each of its beats would then
    wait for the next one, as short as that is, and fill the history of the execution.
    """
    return math.ceil(2 * _REPORTS_UNTIL_OVERDUE * timing.progress_period_s)


def report_overdue_s(stall_timeout_s: float) -> float:
    """Seconds without a report after which a runner that can report has failed to."""
    return min(_REPORT_OVERDUE_S, stall_timeout_s / 2)


def longest_report_wait_s(timing: LeaseSettings, stall_timeout_s: float = math.inf) -> float:
    """Seconds between two reports at most, however old the attempt is.

    So long may a cancel or a lost lease go unseen by the runner.
    """
    return max(timing.progress_period_s, report_overdue_s(stall_timeout_s) / _REPORTS_UNTIL_OVERDUE)


def report_wait_s(
    age_s: float, timing: LeaseSettings, stall_timeout_s: int, *, has_news: bool = True
) -> float:
    """Seconds from a report to the next one, of an attempt of that age.

    In proportion to the age, as those between beats.
    """
    wait_s = max(timing.beat_fraction * age_s, timing.progress_period_s)
    return min(
        wait_s if has_news else _WITHOUT_NEWS * wait_s,
        longest_report_wait_s(timing, stall_timeout_s),
    )


BEATS_KEPT = 60
"""Beats whose times an attempt keeps: five hours of them at one every five minutes."""


# Clocks differ, and a record of the mapping has no exact time of its receive.
_CAP_MARGIN_S = 5

MAX_VISIBILITY_S = SQS_VISIBILITY_CAP_S - _CAP_MARGIN_S
"""What we ask SQS for at most, counted from the receive."""

# The part of the margin that is left for a late beat where a beat does not extend the message.
_MARGIN_LEFT = 1 / 3

# The start of an execution, and a cold heartbeat.
_FIRST_BEAT_MARGIN_S = 30


def interval_s(age_s: float, timing: LeaseSettings) -> int:
    """Seconds until the next beat of an attempt that is `age_s` old.

    In proportion to what a crash would lose, within floor and ceiling. Whole seconds, because Step
    Functions' Wait takes no fractions.
    """
    return min(
        max(math.ceil(timing.beat_fraction * age_s), timing.beat_floor_s), timing.beat_ceiling_s
    )


def visibility_s(interval: int, held_s: float, timing: LeaseSettings) -> int:
    """Visibility timeout that covers the wait `interval`, for a message received `held_s` ago.

    Never past SQS's cap, which counts from the receive: SQS rejects a longer one.
    """
    wanted = math.ceil(timing.visibility_factor * interval + timing.visibility_margin_s)
    return max(0, min(wanted, math.floor(MAX_VISIBILITY_S - held_s)))


def _least_visibility_s(interval: int, timing: LeaseSettings) -> float:
    """Visibility that must be left for a beat not to extend it: the next one may still be late."""
    return timing.visibility_factor * interval + _MARGIN_LEFT * timing.visibility_margin_s


def _hidden_for_s(attempt: Attempt, now: datetime) -> int:
    """Whole seconds for which the last extension still hides the message."""
    expires_at = attempt.lease_expires_at
    # Until the first beat the queue's own visibility hides it, from a receive of unknown age.
    if expires_at is None or not attempt.beats:
        return 0
    return math.floor((expires_at - now).total_seconds())


def must_extend(first_wait: int, held_s: float) -> bool:
    """Whether a message that was received `held_s` ago would show before its job's first beat."""
    return held_s + first_wait + _FIRST_BEAT_MARGIN_S > QUEUE_VISIBILITY_S


def decide_beat(
    lease: Lease | None, attempt: AttemptId, timing: LeaseSettings, now: datetime
) -> Beat:
    """What the beat of `attempt` does, given its row."""
    if lease is None:
        return Kill("LeaseLost", "the lease row is gone")
    if lease.has_settled(attempt):
        return End()
    if not lease.owns(attempt):
        return Kill(
            "LeaseLost",
            f"the lease is held by run {lease.run}, attempt {lease.attempt.number} ({lease.state})",
        )
    if lease.cancel_requested_at:
        return Kill(
            "JobCancelled",
            f"cancelled at {lease.cancel_requested_at.isoformat(timespec='seconds')}",
        )
    progress_at = lease.attempt.progress_at
    age_s = (now - lease.attempt.claimed_at).total_seconds()
    if progress_at is None and _beats_for_s(lease.attempt, age_s) >= timing.start_timeout_s:
        return Kill(
            "JobStalled",
            f"the task gave no sign of life within {format_duration(timing.start_timeout_s)}",
        )
    wait_s = interval_s(age_s, timing)
    if progress_at and (now - progress_at).total_seconds() >= lease.stall_timeout_s:
        cause = _stall(lease, progress_at, timing, now)
        if cause is not None:
            return Kill("JobStalled", cause)
        wait_s = timing.beat_floor_s
    receive = lease.receive
    if receive.receipt_handle is None or receive.received_at is None:
        return Extend(None, visibility_s(wait_s, 0, timing), wait_s)
    held_s = (now - receive.received_at).total_seconds()
    if held_s >= timing.hand_over_age_s:
        return HandOver(receive.receipt_handle, wait_s)
    hidden_s = _hidden_for_s(lease.attempt, now)
    if hidden_s >= _least_visibility_s(wait_s, timing):
        return Extend(None, hidden_s, wait_s)
    return Extend(receive.receipt_handle, visibility_s(wait_s, held_s, timing), wait_s)


def _beats_for_s(attempt: Attempt, age_s: float) -> float:
    """Seconds since the first beat of an attempt of that age.

    Its execution, and with it its task, may have started long after the claim: Step Functions was
    out, or throttled.
    """
    if attempt.beats > BEATS_KEPT:  # the age of the first is not kept any more
        return age_s
    return age_s - attempt.beat_ages_s[0] if attempt.beat_ages_s else 0


def _stall(lease: Lease, progress_at: datetime, timing: LeaseSettings, now: datetime) -> str | None:
    """Why an attempt without progress is ended; None while it may only be unable to report.

    A runner that reports says itself that nothing advances. One that does not may hang as a whole,
    be cut off from the network, or wait for DynamoDB, as the heartbeat did: the next beat comes
    soon and decides.
    """
    stall_timeout_s = lease.stall_timeout_s
    limit = f"(stall_timeout {format_duration(stall_timeout_s)})"
    no_progress = f"no progress for {format_duration((now - progress_at).total_seconds())} {limit}"
    reported_at = lease.attempt.reported_at
    heard_at = reported_at or progress_at
    still_s = (heard_at - progress_at).total_seconds()
    if still_s >= stall_timeout_s:
        return no_progress
    unheard_s = (now - heard_at).total_seconds()
    # Not before it was due, however short the stall timeout is.
    overdue_s = max(report_overdue_s(stall_timeout_s), _LATE_PERIODS * timing.progress_period_s)
    if unheard_s < overdue_s:
        is_said = still_s >= stall_timeout_s - report_overdue_s(stall_timeout_s)
        return no_progress if is_said else None
    if not _could_have_reported(lease, heard_at, overdue_s, now):
        return None
    if reported_at is not None:
        return f"no report for {format_duration(unheard_s)} {limit}"
    return no_progress


def _could_have_reported(lease: Lease, heard_at: datetime, overdue_s: float, now: datetime) -> bool:
    """Whether the row took a beat when a report was overdue, and has taken no report since.

    After an outage the first beat may come before the first report.
    """
    claimed_at = lease.attempt.claimed_at
    first_s = (heard_at - claimed_at).total_seconds() + overdue_s
    last_s = (now - claimed_at).total_seconds() - overdue_s
    return any(first_s <= age_s <= last_s for age_s in lease.attempt.beat_ages_s)


def beaten(lease: Lease, now: datetime, lease_expires_at: datetime) -> Lease:
    """The row after a beat of its attempt: one more counted, and its time among the latest.

    Absolute values to SET, not ADD: a retried write counts once. When Step Functions gives up on an
    invocation that runs on, two heartbeats of one attempt may cross, and one goes uncounted.
    """
    attempt = lease.attempt
    # Whole seconds, rounded down: no beat comes after its attempt's end.
    age_s = max(0, int((now - attempt.claimed_at).total_seconds()))
    return replace(
        lease,
        attempt=replace(
            attempt,
            lease_expires_at=lease_expires_at,
            beats=attempt.beats + 1,
            beat_ages_s=(*attempt.beat_ages_s, age_s)[-BEATS_KEPT:],
        ),
    )
