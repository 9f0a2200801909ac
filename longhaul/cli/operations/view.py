"""Jobs and attempts as flat JSON objects, for `--json`."""

from datetime import UTC, datetime
from typing import Any, overload

from longhaul.domain.history import AttemptRecord, log_stream
from longhaul.domain.lease import Lease, State
from longhaul.ports import Executions
from longhaul.settings import RuntimeSettings

QUEUED = "QUEUED"
"""The state of a job without a row: it waits in its queue, or was never sent."""


def shown_state(lease: Lease) -> str:
    """The row's state, or CANCELLING."""
    if lease.cancel_requested_at and not lease.state.is_terminal:
        return "CANCELLING"
    return lease.state.value


def job_record(
    lease: Lease, settings: RuntimeSettings, executions: Executions, now: datetime
) -> dict[str, Any]:
    """Everything about a job. Times are ISO 8601 in UTC; what does not apply is None."""
    execution = None if lease.is_mark else lease.input
    stream = log_stream(lease.attempt)
    return {
        "job_id": lease.job_id,
        "stage": lease.stage,
        "state": shown_state(lease),
        "root": lease.root.partition("#")[2],
        "parent": lease.lineage.parent.partition("#")[2] if lease.lineage else None,
        "run": lease.run,
        "attempt": lease.attempt.number,
        "failures": lease.failures,
        "max_attempts": lease.max_attempts,
        "interruptions": lease.interruptions,
        "run_began": iso(datetime.fromtimestamp(lease.run / 1000, UTC)),
        "attempt_began": None if lease.is_mark else iso(lease.attempt.claimed_at),
        "seconds": None if lease.is_mark else _seconds(lease, now),
        "size": execution.size if execution else None,
        "engine": execution.engine if execution else None,
        "timeout_s": execution.timeout_s if execution else None,
        "progress": lease.attempt.progress,
        "progress_at": iso(lease.attempt.progress_at),
        "beats": lease.attempt.beats,
        "lease_expires_at": iso(lease.attempt.lease_expires_at)
        if lease.state is State.RUNNING
        else None,
        "class": lease.last_class,
        "error": lease.last_error,
        "settled_at": iso(lease.settled_at),
        "retry_at": iso(lease.retry_at) if lease.state is State.RELEASED else None,
        "cancel_requested_at": iso(lease.cancel_requested_at),
        "owed": [owed.value for owed in lease.owed],
        "output": lease.attempt.output.prefix if lease.attempt.output else None,
        "published_at": iso(lease.attempt.published_at),
        "message_id": lease.receive.message_id or None,
        "receive_count": lease.receive.receive_count,
        "execution_arn": None if lease.is_mark else executions.arn(lease.id.execution_name),
        "log_group": settings.job_log_group if stream else None,
        "log_stream": stream,
    }


def attempt_record(record: AttemptRecord, executions: Executions, now: datetime) -> dict[str, Any]:
    """Everything about an attempt; as `job_record`."""
    since, end = record.queued_at or record.attempt.claimed_at, record.ended_at or now
    return {
        "job_id": record.key.partition("#")[2],
        "stage": record.stage,
        "run": record.run,
        "attempt": record.attempt.number,
        "class": record.kind,
        "reason": record.reason,
        "state": record.state.value,
        "queued_at": iso(record.queued_at),
        "due_at": iso(record.due_at),
        "claimed_at": iso(record.attempt.claimed_at),
        "started_at": iso(record.attempt.started_at),
        "ended_at": iso(record.ended_at),
        "waited_s": _between(since, record.attempt.claimed_at),
        "seconds": _between(record.attempt.claimed_at, end),
        "beats": record.attempt.beats,
        "beat_times": [iso(each) for each in record.beat_times],
        "adoptions": record.attempt.adoptions,
        "hand_overs": record.attempt.hand_overs,
        "progress": record.attempt.progress,
        "size": record.size,
        "capacity": record.capacity,
        "task_from": iso(record.attempt.task_from),
        "task_until": iso(record.attempt.task_until),
        "execution_arn": executions.arn(record.id.execution_name),
        "log_stream": log_stream(record.attempt),
    }


def _seconds(lease: Lease, now: datetime) -> float:
    """The duration of the latest attempt, so far if it runs."""
    end = lease.settled_at if lease.has_settled(lease.id) and lease.settled_at else now
    return _between(lease.attempt.claimed_at, end)


def _between(begin: datetime, end: datetime) -> float:
    """Seconds. Two clocks may differ: never negative."""
    return round(max(0.0, (end - begin).total_seconds()), 1)


@overload
def iso(value: datetime) -> str: ...
@overload
def iso(value: None) -> None: ...
def iso(value: datetime | None) -> str | None:
    """ISO 8601 in UTC, to the millisecond."""
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z") if value else None
