"""How an attempt ended, and what follows. Pure.

Precedence: a committed output in the row, the runner's recorded result, our own error, the task's stop code, its exit code. What the row says beats what
Step Functions heard: an attempt that committed has succeeded, whatever ended its task. A runner that recorded that it was told to stop does not know why: if it
was us, our error says it.
"""

import json
import random
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any, get_args

from longhaul.domain import schedule
from longhaul.domain.job_run import exit_code_in
from longhaul.domain.lease import ExecutionInput, Lease, Owed, State
from longhaul.settings import LeaseSettings, SizeName, Stage

MAX_ERROR_CHARS = 800
"""What is kept of an error text: the row stays below 1 KiB or so, and a dead letter's attribute below 8 KiB."""


class OutcomeClass(StrEnum):
    SUCCEEDED = "succeeded"
    NO_OUTPUT = "no_output"
    PERMANENT = "permanent"
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    STALLED = "stalled"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class ExitCode(IntEnum):
    """What the runner's exit codes mean. Below 64 and above 78 are the shell's and the system's (sysexits.h)."""

    OK = 0
    FAILED = 1
    PERMANENT = 65  # EX_DATAERR
    SUPERSEDED = 73  # EX_CANTCREAT: another attempt owns the output
    INTERRUPTED = 75  # EX_TEMPFAIL: told to stop; the runner had no fault of its own
    OUT_OF_MEMORY = 137  # as the kernel's OOM killer would have left it


_KILLED = 137
_STOPPED_BY_PLATFORM = {
    "SpotInterruption",
    "TerminationNotice",
    "InfrastructureHealth",
    "TaskFailedToStart",
    "UserInitiated",
    "ServiceSchedulerInitiated",
}
_OUT_OF_MEMORY = re.compile(r"OutOfMemory|out of memory", re.IGNORECASE)
_THROTTLED = re.compile(
    r"Rate exceeded|Throttl|Capacity is unavailable|RESOURCE:|MaxCapacityExceeded|maximumCapacity|ServiceQuotaExceeded",
    re.IGNORECASE,
)
# As the runner reports it (`jobs.reporting.Phase`). Before, the runner registers, fetches inputs and boots Spark; afterwards it publishes. Nothing of the job runs
# then, so what stalls is not the job.
_PHASE_OF_THE_JOB = "running"
# Transfers tell of each part. Where nothing has moved for this long a call is not answered: the SDK waits a minute for an answer, and then tries again.
_UNANSWERED = timedelta(minutes=1)
_OWN_ERRORS = {
    "JobStalled": OutcomeClass.STALLED,
    "JobCancelled": OutcomeClass.CANCELLED,
    "LeaseLost": OutcomeClass.SUPERSEDED,
}


@dataclass(frozen=True)
class Evidence:
    """What Step Functions saw: the description of a task or job run that ended well, or an error with its cause."""

    error: str | None = None
    cause: str = ""
    task: dict[str, Any] | None = None

    @classmethod
    def execution_closed(cls, status: str) -> "Evidence":
        """The execution ended (`ABORTED`, `FAILED`, …) and nobody settled its attempt."""
        return cls(error="ExecutionClosed", cause=f"the execution ended {status} before its attempt was settled")


@dataclass(frozen=True)
class Verdict:
    """`stop_task`: the task may still run; we have to stop it. `throttled`: AWS could not give what was asked for: fewer should run at once."""

    kind: OutcomeClass
    detail: str
    stop_task: bool = False
    throttled: bool = False


def classify(lease: Lease, evidence: Evidence) -> Verdict:
    """How the attempt in `lease` ended."""
    task = _task_of(evidence)
    stop = evidence.error in ("States.Timeout", "ExecutionClosed", *_OWN_ERRORS)
    if lease.output is not None:
        return Verdict(OutcomeClass.SUCCEEDED, "output committed", stop_task=False)
    own = _OWN_ERRORS.get(evidence.error or "")
    result = lease.result if lease.result is not None and lease.result.attempt == lease.attempt else None
    was_our_stop = own is not None or evidence.error == "States.Timeout"
    if result is not None and not (was_our_stop and result.kind == OutcomeClass.INTERRUPTED):
        return Verdict(_known(result.kind), result.error, stop)
    if own is OutcomeClass.STALLED and not _is_at_work(lease):
        return Verdict(OutcomeClass.INTERRUPTED, evidence.cause or "the task never started", stop_task=True)
    if own is not None:
        return Verdict(own, evidence.cause or str(evidence.error), stop_task=own is not OutcomeClass.SUPERSEDED)
    if evidence.error == "States.Timeout":
        return _classify_timeout(lease)
    if evidence.error is None:
        return Verdict(OutcomeClass.NO_OUTPUT, "the task exited with 0 and committed nothing")
    if task is None:
        # RunTask refused, throttled (also in disguise: InvalidParameterException … Rate exceeded), out of capacity, or the execution was stopped.
        words = f"{evidence.error}: {evidence.cause}"
        return Verdict(OutcomeClass.INTERRUPTED, words, stop, throttled=bool(_THROTTLED.search(words)))
    return _classify_job_run(task) if "JobRunId" in task else _classify_task(task)


def _is_at_work(lease: Lease) -> bool:
    """Whether the runner was in the job's own code when it last reported."""
    return lease.progress_at is not None and lease.progress.get("phase") == _PHASE_OF_THE_JOB


def _classify_timeout(lease: Lease) -> Verdict:
    limit = f"its timeout of {lease.input.timeout_s} s"
    if lease.progress_at is None:
        return Verdict(OutcomeClass.INTERRUPTED, f"the task did not start within {limit}", stop_task=True)
    silent = lease.claimed_at + timedelta(seconds=lease.input.timeout_s) - lease.progress_at
    if not _is_at_work(lease) and silent >= _UNANSWERED:
        words = (
            f"AWS kept the runner waiting: nothing had moved for {round(silent.total_seconds())} s when {limit} was up"
        )
        return Verdict(OutcomeClass.INTERRUPTED, words, stop_task=True)
    return Verdict(OutcomeClass.TIMED_OUT, f"ran longer than {limit}", stop_task=True)


def _classify_task(task: dict[str, Any]) -> Verdict:
    stop_code, stopped_reason = str(task.get("StopCode", "")), str(task.get("StoppedReason", ""))
    container: dict[str, Any] = next(iter(task.get("Containers") or []), {})
    code, reason = container.get("ExitCode"), str(container.get("Reason", ""))
    said = "; ".join(
        part for part in (f"exit code {code}" if code is not None else "", reason, stop_code, stopped_reason) if part
    )
    if code == _KILLED and _OUT_OF_MEMORY.search(reason + stopped_reason):
        return Verdict(OutcomeClass.OUT_OF_MEMORY, said)
    kind = _by_exit_code(code)
    if stop_code in _STOPPED_BY_PLATFORM and kind is OutcomeClass.FAILED:
        kind = OutcomeClass.INTERRUPTED
    return Verdict(kind, said or "the task ended without an exit code")


def _classify_job_run(run: dict[str, Any]) -> Verdict:
    """Of EMR Serverless. One that was cancelled was so by no mark of ours; one that failed without an exit code never got its driver, or lost it."""
    state, details = str(run.get("State", "")), str(run.get("StateDetails") or "")
    said = f"job run {state.lower()}: {details}" if details else f"job run {state.lower()}"
    if state == "CANCELLED":
        return Verdict(OutcomeClass.INTERRUPTED, said)
    code = exit_code_in(details)
    if code is None:
        return Verdict(OutcomeClass.INTERRUPTED, said, throttled=bool(_THROTTLED.search(details)))
    kind = _by_exit_code(code)
    if kind is OutcomeClass.FAILED and _OUT_OF_MEMORY.search(details):
        kind = OutcomeClass.OUT_OF_MEMORY
    return Verdict(kind, said)


def _by_exit_code(code: int | None) -> OutcomeClass:
    match code:
        case ExitCode.PERMANENT:
            return OutcomeClass.PERMANENT
        case ExitCode.SUPERSEDED:
            return OutcomeClass.SUPERSEDED
        case None | ExitCode.INTERRUPTED:
            return OutcomeClass.INTERRUPTED
        case _:
            return OutcomeClass.FAILED


def task_times(evidence: Evidence) -> tuple[datetime | None, datetime | None]:
    """From when to when the attempt's task is paid for, as far as ECS told: from the pull of its image to its stop.

    Source: https://aws.amazon.com/fargate/pricing/. A task that was never pulled cost nothing; without any times it is unknown.
    """
    task = _task_of(evidence) or {}
    begun = next((task[name] for name in ("PullStartedAt", "StartedAt") if task.get(name)), None)
    return _time(begun), _time(task.get("StoppedAt"))


def task_arn(evidence: Evidence) -> str | None:
    """Which task it was, also when it ended before it could register: its log says why."""
    arn = (_task_of(evidence) or {}).get("TaskArn")
    return arn if isinstance(arn, str) else None


def _time(value: Any) -> datetime | None:  # noqa: ANN401 - from a task's description
    """Step Functions writes a task's times in epoch milliseconds."""
    return datetime.fromtimestamp(value / 1000, UTC) if isinstance(value, int | float) else None


def _task_of(evidence: Evidence) -> dict[str, Any] | None:
    """The task or job run that `.sync` hands over as the cause of `States.TaskFailed`; None when the cause is only words."""
    if evidence.task is not None:
        return evidence.task
    try:
        cause = json.loads(evidence.cause)
    except ValueError:
        return None
    return cause if isinstance(cause, dict) and ("TaskArn" in cause or "JobRunId" in cause) else None


def _known(kind: str) -> OutcomeClass:
    try:
        return OutcomeClass(kind)
    except ValueError:  # a newer runner's class: an ordinary failure to this version
        return OutcomeClass.FAILED


@dataclass(frozen=True)
class Settlement:
    """`lease` is the row as it shall be; `retry_in_s` says for how long a released message stays invisible."""

    lease: Lease
    verdict: Verdict
    retry_in_s: int | None = None


def settle(
    lease: Lease, verdict: Verdict, stage: Stage, numbers: LeaseSettings, now: datetime, rng: random.Random
) -> Settlement:
    """The row after its attempt ended with `verdict`. Not for SUPERSEDED: who lost the lease writes nothing."""
    detail = shorten(verdict.detail)
    row = replace(
        lease, settled_attempt=lease.attempt, settled_at=now, last_class=verdict.kind.value, last_error=detail
    )
    if verdict.kind is OutcomeClass.SUCCEEDED:
        publish = () if lease.published_at else (Owed.PUBLISH,)
        follow_ons = (Owed.FOLLOW_ONS,) if stage.next else ()
        owed = (*publish, *follow_ons, Owed.DELETE)
        return Settlement(replace(row, state=State.SUCCEEDED, owed=owed, last_error=None), verdict)
    if verdict.kind is OutcomeClass.CANCELLED or lease.cancel_requested_at:
        return Settlement(
            replace(row, state=State.CANCELLED, owed=(Owed.DELETE,), last_class=OutcomeClass.CANCELLED.value), verdict
        )
    if verdict.kind is OutcomeClass.INTERRUPTED:
        row = replace(row, interruptions=lease.interruptions + 1)
        hopeless = row.interruptions >= numbers.max_interruptions
        tries = row.interruptions
    else:
        row = replace(row, failures=lease.failures + 1)
        hopeless = verdict.kind is OutcomeClass.PERMANENT or row.failures >= lease.max_attempts
        tries = row.failures
    if hopeless:
        return Settlement(replace(row, state=State.DEAD, owed=(Owed.DEAD_LETTER, Owed.DELETE)), verdict)
    wait = schedule.back_off_s(tries, numbers, rng)
    if verdict.stop_task:
        wait = max(wait, schedule.stop_clearance_s(numbers))
    row = replace(row, state=State.RELEASED, retry_at=now + timedelta(seconds=wait))
    if verdict.kind is OutcomeClass.OUT_OF_MEMORY:
        row = replace(row, execution_input=_next_size(lease.input).model_dump_json())
    return Settlement(row, verdict, retry_in_s=wait)


def cancel_waiting(lease: Lease, now: datetime) -> Lease:
    """The row of a job that was cancelled between attempts."""
    return replace(
        lease,
        state=State.CANCELLED,
        owed=(Owed.DELETE,),
        last_class=OutcomeClass.CANCELLED.value,
        settled_at=now,
    )


def _next_size(execution: ExecutionInput) -> ExecutionInput:
    """The same with the next larger size; the largest stays."""
    sizes: tuple[str, ...] = get_args(SizeName)
    larger = sizes[min(sizes.index(execution.size) + 1, len(sizes) - 1)]
    return execution.model_copy(update={"size": larger})


def shorten(text: str) -> str:
    """An error text of at most `MAX_ERROR_CHARS` characters."""
    return text if len(text) <= MAX_ERROR_CHARS else text[: MAX_ERROR_CHARS - 1] + "…"
