"""What a received message means for its job: a decision out of a row and a message. Pure.

`docs/lease.md` has every case as a table, which the tests read.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from longhaul.domain import schedule
from longhaul.domain.lease import ExecutionInput, Lease, Message, State
from longhaul.settings import LeaseSettings, Stage

MAX_FORMER_MESSAGES = 10
"""How many message ids that once carried a job its row remembers. They come again at most a few times, soon after a takeover."""


@dataclass(frozen=True)
class Claim:
    """Take the job: write `lease` iff the row still is `replaces`, and take a slot."""

    lease: Lease
    replaces: Lease | None

    @property
    def starts_run(self) -> bool:
        return self.replaces is None or self.replaces.run != self.lease.run


@dataclass(frozen=True)
class Probe:
    """The row says RUNNING: ask Step Functions whether it is true, by starting the same execution again."""

    lease: Lease


@dataclass(frozen=True)
class Finish:
    """The job has ended and this is its message, or what it owes must be done before a new run: do it. Only then delete `own` messages."""

    lease: Lease
    own: bool


@dataclass(frozen=True)
class CancelWaiting:
    """The job was cancelled while its message waited."""

    lease: Lease


@dataclass(frozen=True)
class Postpone:
    """Too early: the attempt before may still be stopping, or the back-off has not passed."""

    until: datetime


@dataclass(frozen=True)
class Duplicate:
    """The same work was submitted or delivered again: delete this message."""


@dataclass(frozen=True)
class Conflict:
    """The key belongs to other work: dead-letter this message."""

    lease: Lease


Decision = Claim | Probe | Finish | CancelWaiting | Postpone | Duplicate | Conflict


def decide_claim(
    lease: Lease | None, message: Message, stage: Stage, numbers: LeaseSettings, now: datetime
) -> Decision:
    """What a received message means for its job."""
    if lease is None:
        return Claim(new_run(None, message, stage, numbers, now), replaces=None)
    own = lease.message_id in (message.message_id, message.renews)
    same_work = message.request.fingerprint() == lease.fingerprint
    if not own and message.message_id in lease.former_message_ids:
        return Duplicate()
    if lease.state.is_terminal and own:
        return Finish(lease, own=True)
    if lease.state in (State.DEAD, State.CANCELLED):
        # What the old run owes first: the new run replaces its row.
        return (
            Finish(lease, own=False)
            if lease.owed
            else Claim(new_run(lease, message, stage, numbers, now), replaces=lease)
        )
    if lease.state is State.RELEASED and lease.cancel_requested_at:
        return CancelWaiting(lease)
    if not same_work and not own:
        return Conflict(lease)
    if lease.state is State.RUNNING:
        return Probe(lease) if own else Duplicate()
    if lease.state is State.SUCCEEDED:
        return Duplicate()
    if lease.retry_at and now < lease.retry_at:
        return Postpone(lease.retry_at)
    return Claim(next_attempt(lease, message, numbers, now), replaces=lease)


def new_run(old: Lease | None, message: Message, stage: Stage, numbers: LeaseSettings, now: datetime) -> Lease:
    """The row of a job's first attempt, or of its first attempt in a new run: counters start again, the fencing token goes on."""
    run = max(int(now.timestamp() * 1000), old.run + 1 if old else 0)
    attempt = (old.attempt if old else 0) + 1
    request = message.request
    execution = ExecutionInput(
        key=message.key,
        stage=stage.name,
        job_id=message.key.partition("#")[2],
        run=run,
        attempt=attempt,
        engine=request.engine or stage.engine,
        capacity="FARGATE_SPOT" if stage.spot else "FARGATE",
        job=request.job or stage.job,
        size=request.size or stage.size,
        timeout_s=request.timeout or stage.timeout_s,
        first_wait_s=schedule.interval_s(0, numbers),
    )
    return Lease(
        key=message.key,
        stage=stage.name,
        run=run,
        attempt=attempt,
        state=State.RUNNING,
        fingerprint=request.fingerprint(),
        message_id=message.message_id,
        request_ref=message.request_ref,
        execution_input=execution.model_dump_json(),
        claimed_at=now,
        max_attempts=request.max_attempts or stage.max_attempts,
        stall_timeout_s=request.stall_timeout or stage.stall_timeout_s,
        # A correction that somebody submits by hand takes the place of the job that died, also in its group.
        lineage=request.lineage or (old.lineage if old else None),
        former_message_ids=_former(old, message) if old else (),
        receipt_handle=message.receipt_handle,
        receive_count=message.receive_count,
        received_at=message.received_at,
        sent_at=message.sent_at,
        first_sent_at=message.first_sent_at,
        lease_expires_at=_expiry(message, execution.first_wait_s, numbers, now),
        settled_attempt=old.settled_attempt if old else 0,
    )


def next_attempt(old: Lease, message: Message, numbers: LeaseSettings, now: datetime) -> Lease:
    """The row of a released job's next attempt. What the request and the stage said at the first claim stays."""
    changes: dict[str, Any] = {"attempt": old.attempt + 1, "first_wait_s": schedule.interval_s(0, numbers)}
    if old.interruptions >= numbers.spot_interruptions:
        changes["capacity"] = "FARGATE"
    execution = old.input.model_copy(update=changes)
    return replace(
        adopted(old, message),
        attempt=execution.attempt,
        state=State.RUNNING,
        execution_input=execution.model_dump_json(),
        claimed_at=now,
        lease_expires_at=_expiry(message, execution.first_wait_s, numbers, now),
        beats=0,
        beat_ages_s=(),
        adoptions=0,
        hand_overs=0,
        task_arn=None,
        started_at=None,
        task_from=None,
        task_until=None,
        progress={},
        progress_at=None,
        result=None,
    )


def adopted(lease: Lease, message: Message) -> Lease:
    """The row of a running job with a newer receive of its message, or with the copy that renews it."""
    return replace(
        lease,
        message_id=message.message_id,
        former_message_ids=_former(lease, message),
        receipt_handle=message.receipt_handle,
        receive_count=message.receive_count,
        received_at=message.received_at,
        sent_at=message.sent_at,
    )


def cancelled_before_claim(key: str, stage: str, now: datetime) -> Lease:
    """The row that holds the cancel mark of a job whose message has not been claimed yet: the message, when it comes, is deleted."""
    return Lease(
        key=key,
        stage=stage,
        run=int(now.timestamp() * 1000),
        attempt=0,
        state=State.RELEASED,
        fingerprint="",
        message_id="",
        request_ref="",
        execution_input="",
        claimed_at=now,
        max_attempts=1,
        stall_timeout_s=1,
        cancel_requested_at=now,
    )


def _former(old: Lease, message: Message) -> tuple[str, ...]:
    if message.message_id == old.message_id:
        return old.former_message_ids
    return (*old.former_message_ids, old.message_id)[-MAX_FORMER_MESSAGES:]


def _expiry(message: Message, first_wait_s: int, numbers: LeaseSettings, now: datetime) -> datetime:
    held = (now - message.received_at).total_seconds()
    return now + timedelta(seconds=schedule.visibility_s(first_wait_s, held, numbers))
