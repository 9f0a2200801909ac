"""A job as people and their tools see it: the row, with what follows from it, as one flat JSON object."""

from datetime import UTC, datetime
from typing import Any, overload

from longhaul.domain.history import Attempt
from longhaul.domain.lease import Lease, State
from longhaul.job_logs import stream_of
from longhaul.ports import Executions
from longhaul.settings import RuntimeSettings

QUEUED = "QUEUED"
"""Nobody has claimed the job yet: it waits in its queue, or was never sent."""


def shown_state(lease: Lease) -> str:
    """The row's state, or what it is on the way to."""
    if lease.cancel_requested_at and not lease.state.is_terminal:
        return "CANCELLING"
    return lease.state.value


def job_record(lease: Lease, settings: RuntimeSettings, executions: Executions, now: datetime) -> dict[str, Any]:
    """Everything about a job. Times are ISO 8601 in UTC; what is not known or not so is None."""
    execution = None if lease.is_mark else lease.input
    stream = stream_of(lease)
    return {
        "job_id": lease.job_id,
        "stage": lease.stage,
        "state": shown_state(lease),
        "root": lease.root.partition("#")[2],
        "parent": lease.lineage.parent.partition("#")[2] if lease.lineage else None,
        "run": lease.run,
        "attempt": lease.attempt,
        "failures": lease.failures,
        "max_attempts": lease.max_attempts,
        "interruptions": lease.interruptions,
        "run_began": iso(datetime.fromtimestamp(lease.run / 1000, UTC)),
        "attempt_began": None if lease.is_mark else iso(lease.claimed_at),
        "seconds": None if lease.is_mark else _seconds(lease, now),
        "size": execution.size if execution else None,
        "engine": execution.engine if execution else None,
        "timeout_s": execution.timeout_s if execution else None,
        "progress": lease.progress,
        "progress_at": iso(lease.progress_at),
        "beats": lease.beats,
        "lease_expires_at": iso(lease.lease_expires_at) if lease.state is State.RUNNING else None,
        "class": lease.last_class,
        "error": lease.last_error,
        "settled_at": iso(lease.settled_at),
        "retry_at": iso(lease.retry_at) if lease.state is State.RELEASED else None,
        "cancel_requested_at": iso(lease.cancel_requested_at),
        "owed": [owed.value for owed in lease.owed],
        "output": lease.output.prefix if lease.output else None,
        "published_at": iso(lease.published_at),
        "message_id": lease.message_id or None,
        "receive_count": lease.receive_count,
        "execution_arn": None if lease.is_mark else executions.arn(lease.id.execution_name),
        "log_group": settings.job_log_group if stream else None,
        "log_stream": stream,
    }


def attempt_record(attempt: Attempt, executions: Executions, now: datetime) -> dict[str, Any]:
    """Everything about an attempt; as `job_record`."""
    since, end = attempt.queued_at or attempt.claimed_at, attempt.ended_at or now
    return {
        "job_id": attempt.key.partition("#")[2],
        "stage": attempt.stage,
        "run": attempt.run,
        "attempt": attempt.attempt,
        "class": attempt.kind,
        "reason": attempt.reason,
        "state": attempt.state.value,
        "queued_at": iso(attempt.queued_at),
        "due_at": iso(attempt.due_at),
        "claimed_at": iso(attempt.claimed_at),
        "started_at": iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "waited_s": _between(since, attempt.claimed_at),
        "seconds": _between(attempt.claimed_at, end),
        "beats": attempt.beats,
        "beat_times": [iso(each) for each in attempt.beat_times],
        "adoptions": attempt.adoptions,
        "hand_overs": attempt.hand_overs,
        "progress": attempt.progress,
        "size": attempt.size,
        "capacity": attempt.capacity,
        "task_from": iso(attempt.task_from),
        "task_until": iso(attempt.task_until),
        "execution_arn": executions.arn(attempt.id.execution_name),
        "log_stream": stream_of(attempt),
    }


def _seconds(lease: Lease, now: datetime) -> float:
    """For how long the latest attempt has run, or ran."""
    end = lease.settled_at if lease.has_settled(lease.id) and lease.settled_at else now
    return _between(lease.claimed_at, end)


def _between(begin: datetime, end: datetime) -> float:
    """Seconds; clocks differ, and none is negative."""
    return round(max(0.0, (end - begin).total_seconds()), 1)


@overload
def iso(value: datetime) -> str: ...
@overload
def iso(value: None) -> None: ...
def iso(value: datetime | None) -> str | None:
    """ISO 8601 in UTC, to the millisecond."""
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z") if value else None
