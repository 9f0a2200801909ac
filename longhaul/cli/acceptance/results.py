"""What was expected of each case, what happened, and how long each step took. Pure.

sent ─ CLAIMED ─ claimed ─ STARTED ─ task registered … ended ─ DELETED ─ message gone
                    ▲                                    │
                    └───────────── RETRIED ──────────────┘   (from the disturbance, if any)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from longhaul.cli.acceptance.cases import Case, Disturbance
from longhaul.cli.display.text import counted
from longhaul.domain.backoff import stop_clearance_s
from longhaul.domain.beat import longest_report_wait_s
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import Lease, State
from longhaul.settings import LeaseSettings

CLAIMED: Final = "queue → claim"
STARTED: Final = "claim → task running"
DRIVEN: Final = "claim → driver running"
RETRIED: Final = "end → next attempt"
DELETED: Final = "end → message deleted"

# What AWS takes, in seconds. Long polls return at once; a dispatcher that starts cold loads for two
# or three seconds.
_RECEIVE: Final = 10
# Fargate places a task, attaches its network and pulls the image: 30 to 90 s, as others measured.
_TASK: Final = 120
# EMR Serverless starts its application, then a driver: minutes, as its documentation has it.
_DRIVER: Final = 300
# A task that has ended is reported once its network is gone; then settle or the sweeper runs.
_REPORT: Final = 60
# Settle publishes, deletes the message and strikes it off. The rows are read every second.
_FINISH: Final = 15


def usual(timing: LeaseSettings) -> Mapping[str, float]:
    """Seconds that each step takes at most, as a rule: the stack's own timing, and AWS's."""
    # Its runner sees the cancel at its next report, and unwinds.
    seen_s = longest_report_wait_s(timing) + timing.progress_period_s
    return {
        CLAIMED: _RECEIVE,
        STARTED: _TASK,
        DRIVEN: _DRIVER,
        RETRIED: timing.backoff_base_s + _RECEIVE,
        Disturbance.CANCEL: seen_s + timing.stop_timeout_s + _REPORT,
        Disturbance.STOP_TASK: timing.backoff_base_s + _REPORT + _RECEIVE,
        # Nothing says that the task has ended: the next attempt waits until it must have.
        Disturbance.STOP_EXECUTION: stop_clearance_s(timing) + _REPORT + _RECEIVE,
        DELETED: _FINISH,
    }


@dataclass
class Trial:
    """A case that was sent, and what was seen of it. Times are by this machine's clock."""

    case: Case
    job_id: str
    sent_at: datetime
    row: Lease | None = None
    disturbed_at: datetime | None = None
    gone_at: datetime | None = None  # its message was deleted
    is_late: bool = False

    @property
    def is_over(self) -> bool:
        return self.is_late or self.gone_at is not None


@dataclass(frozen=True)
class Step:
    """One step of one attempt. What takes longer than usual is worth a look, and no failure."""

    attempt: int
    name: str
    seconds: float
    usual_s: float

    @property
    def is_usual(self) -> bool:
        return self.seconds <= self.usual_s


@dataclass(frozen=True)
class Result:
    case: str
    expected: str
    happened: str
    is_good: bool
    steps: Sequence[Step] = ()
    do: str = ""  # the way out, where there is one

    @property
    def verdict(self) -> str:
        return "passed" if self.is_good else "failed"


def judged(
    trial: Trial,
    attempts: Sequence[AttemptRecord],
    letters: Sequence[str],
    timing: LeaseSettings,
    *,
    has_output: bool,
) -> Result:
    """The result of a trial that is over, from its attempts and the kinds of its dead letters."""
    case, row = trial.case, trial.row
    happened = ending(row, letters, has_output=has_output)
    is_good = happened == case.ending and not trial.is_late
    if trial.is_late:
        happened = f"not over in time: {happened}"
    if not is_good and row and row.last_error:
        happened = f"{happened} ({row.last_class}: {row.last_error})"
    do = (
        ""
        if is_good
        else f"`longhaul status {trial.job_id} --history` and `longhaul logs` say more; then "
        "docs/operations.md"
    )
    return Result(
        case.name, case.ending, happened, is_good, list(steps(trial, attempts, timing)), do
    )


def ending(row: Lease | None, letters: Sequence[str], *, has_output: bool) -> str:
    """How a job has ended, in the words of the table of cases."""
    if row is None:
        return "no job"
    counts = (
        (row.attempt.number, "attempt"),
        (row.failures, "failure"),
        (row.interruptions, "interruption"),
    )
    parts = [row.state.value, *(counted(n, noun) for n, noun in counts if n)]
    parts += [f"dead letter {kind}" for kind in letters]
    return ", ".join([*parts, "output"] if has_output else parts)


def steps(trial: Trial, attempts: Sequence[AttemptRecord], timing: LeaseSettings) -> Iterator[Step]:
    """The steps of a job, in their order. Those of which a moment is not known are left out."""
    disturbance, started = trial.case.disturbance, STARTED
    if trial.case.engine != "fargate":
        started = DRIVEN
    at_most = usual(timing)
    moments: list[tuple[int, str, datetime | None, datetime | None]] = []
    for each in attempts:
        number, claimed_at = each.attempt.number, each.attempt.claimed_at
        if number == 2 and disturbance is not None:  # noqa: PLR2004 - the first one was disturbed
            moments.append((number, disturbance, trial.disturbed_at, claimed_at))
        else:
            moments.append((number, RETRIED if number > 1 else CLAIMED, each.queued_at, claimed_at))
        moments.append((number, started, claimed_at, each.attempt.started_at))
    if attempts:
        last = attempts[-1]
        if last.state is State.CANCELLED:
            moments.append(
                (last.attempt.number, Disturbance.CANCEL, trial.disturbed_at, last.ended_at)
            )
        moments.append((last.attempt.number, DELETED, last.ended_at, trial.gone_at))
    for number, name, since, until in moments:
        if since is not None and until is not None:
            # Two clocks may differ a little: never negative.
            seconds = max(0.0, (until - since).total_seconds())
            yield Step(number, name, round(seconds, 1), at_most[name])
