"""How long each step of a job took, beside what is expected. Pure.

sent ─ CLAIMED ─ claimed ─ STARTED ─ task registered … ended ─ DELETED ─ message gone
                    ▲                                    │
                    └───────────── RETRIED ──────────────┘   (from the disturbance, if any)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from longhaul.cli.acceptance.cases import Case, Disturbance
from longhaul.domain.backoff import stop_clearance_s
from longhaul.domain.beat import longest_report_wait_s
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import State
from longhaul.settings import LeaseSettings

# What AWS takes, in seconds. Long polls return at once; a dispatcher that starts cold loads for two
# or three seconds.
_RECEIVE: Final = 10
# Fargate places a task, attaches its network and pulls the image: 30 to 90 s, as others measured.
_TASK: Final = 120
# EMR Serverless starts its application, then a driver: minutes, as its documentation has it.
_DRIVER: Final = 300
# A task that has ended is reported once its network is gone; then settle or the sweeper runs.
_REPORT: Final = 60
# Settle publishes, deletes the message and strikes it off. The watcher looks every second.
_FINISH: Final = 15


class Leg(StrEnum):
    CLAIMED = "queue → claim"
    STARTED = "claim → task running"
    RETRIED = "end → next attempt"
    RETRIED_AFTER_KILL = "kill → next attempt"
    ENDED = "cancel → end"
    DELETED = "end → message deleted"


@dataclass(frozen=True)
class Expectation:
    """Seconds, both ends included. Outside is worth a look, and no failure."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.least:g} to {self.most:g} s"


@dataclass(frozen=True)
class Timing:
    """One leg of one attempt, as it was measured."""

    job_id: str
    attempt: int
    leg: Leg
    seconds: float
    expected: Expectation

    @property
    def is_usual(self) -> bool:
        return self.expected.least <= self.seconds <= self.expected.most


@dataclass(frozen=True)
class Expectations:
    """From the timing that the stack has, and what AWS takes besides."""

    timing: LeaseSettings

    def of(self, leg: Leg, case: Case | None = None) -> Expectation:
        timing = self.timing
        match leg:
            case Leg.CLAIMED:
                return Expectation(0, _RECEIVE)
            case Leg.STARTED:
                is_on_emr = case is not None and case.engine == "emr-serverless"
                return Expectation(0, _DRIVER if is_on_emr else _TASK)
            case Leg.DELETED:
                return Expectation(0, _FINISH)
            case Leg.ENDED:
                # Its runner sees the cancel at its next report, and unwinds.
                seen_s = longest_report_wait_s(timing) + timing.progress_period_s
                return Expectation(0, seen_s + timing.stop_timeout_s + _REPORT)
            case Leg.RETRIED:
                return Expectation(0, timing.backoff_base_s + _RECEIVE)
            case Leg.RETRIED_AFTER_KILL:
                if case is not None and case.disturbance is Disturbance.STOP_EXECUTION:
                    # Nothing says that the task has ended: the next attempt waits until it must
                    # have.
                    clear = stop_clearance_s(timing)
                    return Expectation(clear, clear + _REPORT + _RECEIVE)
                return Expectation(0, timing.backoff_base_s + _REPORT + _RECEIVE)

    def whole_s(self, case: Case) -> float:
        """Seconds after which a case is given up: all its legs at twice their longest."""
        attempts = max(1, case.ending.attempts)
        legs = [Leg.CLAIMED, Leg.DELETED, *[Leg.STARTED] * attempts]
        if case.disturbance is Disturbance.CANCEL:
            legs.append(Leg.ENDED)
        elif case.disturbance is not None:
            legs.append(Leg.RETRIED_AFTER_KILL)
        legs += [Leg.RETRIED] * (attempts - 1)
        if case.members:  # the members, then the join
            legs += [Leg.CLAIMED, Leg.STARTED, Leg.DELETED] * 2
        return self.timing.start_timeout_s + 2 * sum(self.of(leg, case).most for leg in legs)


def timings(
    job_id: str,
    records: Sequence[AttemptRecord],
    expectations: Expectations,
    *,
    case: Case | None = None,
    disturbed_at: datetime | None = None,
    gone_at: datetime | None = None,
) -> Iterator[Timing]:
    """The legs of a job, in order.

    Args:
        job_id: The job.
        records: Its attempts.
        expectations: What is usual.
        case: Of the job that was sent; None for a follow-on.
        disturbed_at: When its first attempt was stopped or cancelled.
        gone_at: When its message was first seen to be deleted.
    """

    def made(attempt: int, leg: Leg, since: datetime, until: datetime) -> Timing:
        # Two clocks may differ a little: never negative.
        seconds = max(0.0, (until - since).total_seconds())
        return Timing(job_id, attempt, leg, round(seconds, 1), expectations.of(leg, case))

    before: AttemptRecord | None = None
    for record in records:
        number, claimed_at = record.attempt.number, record.attempt.claimed_at
        if before is None:
            if record.queued_at is not None:
                yield made(number, Leg.CLAIMED, record.queued_at, claimed_at)
        elif disturbed_at is not None and before is records[0]:
            yield made(number, Leg.RETRIED_AFTER_KILL, disturbed_at, claimed_at)
        elif before.ended_at is not None:
            yield made(number, Leg.RETRIED, before.ended_at, claimed_at)
        if record.attempt.started_at is not None:
            yield made(number, Leg.STARTED, claimed_at, record.attempt.started_at)
        before = record
    if before is None or before.ended_at is None:
        return
    if disturbed_at is not None and before.state is State.CANCELLED:
        yield made(before.attempt.number, Leg.ENDED, disturbed_at, before.ended_at)
    if gone_at is not None:
        yield made(before.attempt.number, Leg.DELETED, before.ended_at, gone_at)
