"""The lease: who owns a job. One row per job key, one attempt at a time, and a fencing token (`attempt`) that never goes down.

                claim                         settle (success, permanent failure, last failure, cancel)
    (absent) ─────────► RUNNING ─────────────────────────────────────► SUCCEEDED | DEAD | CANCELLED
                         ▲   │ settle (failure, interruption)                        │
                  claim  │   ▼                                                       │ another message with this key:
                        RELEASED ◄── the message waits out its back-off              │ DEAD and CANCELLED start a new run
                         ▲                                                           │ (attempt goes on counting)
                         └──────────────────────── claim ◄───────────────────────────┘

Decisions here are pure: rows and messages in, a decision out. `adapters.dynamodb_leases` turns each into one conditional write.
"""

import hashlib
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_serializer

from longhaul.domain import schedule
from longhaul.domain.paths import INTERNAL_PREFIX
from longhaul.domain.request import JobRequest
from longhaul.settings import LeaseSettings, Stage

MAX_FORMER_MESSAGES = 10
"""How many message ids that once carried a job its row remembers. They come again at most a few times, soon after a takeover."""


class State(StrEnum):
    RUNNING = "RUNNING"
    RELEASED = "RELEASED"
    SUCCEEDED = "SUCCEEDED"
    DEAD = "DEAD"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        return self not in (State.RUNNING, State.RELEASED)


class Owed(StrEnum):
    """What a terminal row still has to do, in this order. Nobody deletes its message while something before DELETE is owed."""

    PUBLISH = "publish"
    DEAD_LETTER = "dead_letter"
    DELETE = "delete"


OpenKind = Literal["RUNNING", "RELEASED", "OWED"]
"""Why a row is in the index of unfinished leases."""


@dataclass(frozen=True, order=True)
class AttemptId:
    """One attempt of one job: the fencing token with what it fences."""

    key: str
    run: int
    attempt: int

    @property
    def key_hash(self) -> str:
        return key_hash(self.key)

    @property
    def execution_name(self) -> str:
        """At most 80 characters, unique for ever: Step Functions remembers closed names for only 90 days."""
        return self.token

    @property
    def token(self) -> str:
        """What every output file's name carries."""
        return f"{self.key_hash}-{self.run}-{self.attempt}"


class ExecutionInput(BaseModel):
    """Input of a state machine execution, fixed at claim and stored in the row byte for byte: StartExecution is idempotent only for the same bytes.

    Unknown fields are ignored: executions live for days, and a deploy may change either side first.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: Literal[1] = 1
    key: str
    stage: str
    job_id: str
    run: int
    attempt: int
    engine: str
    # A Fargate capacity provider. Jobs claimed by the version before this field run on demand.
    capacity: Literal["FARGATE", "FARGATE_SPOT"] = "FARGATE"
    size: str
    timeout_s: int
    first_wait_s: int

    @field_serializer("run", "attempt")
    def _as_text(self, value: int) -> str:
        # They go into the task's environment, which takes texts only; how Step Functions would write a large number into one is its own affair.
        return str(value)

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.key, self.run, self.attempt)


@dataclass(frozen=True)
class CommittedOutput:
    """What the commit recorded: from then on this attempt's files, and no others, become the output."""

    attempt: int
    pending_ref: str  # where the pending uploads are listed, see `longhaul.publish`
    prefix: str
    files: int
    size_bytes: int


@dataclass(frozen=True)
class RecordedResult:
    """How the runner says that its attempt failed. `kind` is an outcome class of `domain.outcome`."""

    attempt: int
    kind: str
    error: str


@dataclass(frozen=True)
class Lease:
    """The row. Times are aware UTC; durations are seconds."""

    key: str
    stage: str
    run: int  # epoch ms of the first claim or of a deliberate re-run
    attempt: int
    state: State
    fingerprint: str
    message_id: str
    request_ref: str  # where the body and the producer's attributes are kept
    execution_input: str
    claimed_at: datetime  # of this attempt
    max_attempts: int
    stall_timeout_s: int
    failures: int = 0
    interruptions: int = 0
    former_message_ids: tuple[str, ...] = ()
    receipt_handle: str | None = None  # None after a hand-over, until the message is received again
    receive_count: int = 0
    received_at: datetime | None = None
    first_sent_at: datetime | None = None
    lease_expires_at: datetime | None = None
    beats: int = 0  # of this attempt
    task_arn: str | None = None
    progress: dict[str, Any] = field(default_factory=dict)
    progress_at: datetime | None = None  # when the work last advanced, as the runner saw it; None until its first write
    settled_attempt: int = 0
    result: RecordedResult | None = None
    output: CommittedOutput | None = None
    published_at: datetime | None = None
    owed: tuple[Owed, ...] = ()
    cancel_requested_at: datetime | None = None
    last_error: str | None = None
    last_class: str | None = None
    settled_at: datetime | None = None  # when the latest outcome was written
    retry_at: datetime | None = (
        None  # when the next attempt may start, or might: it stays, so that a running attempt shows how long it waited
    )

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.key, self.run, self.attempt)

    @property
    def job_id(self) -> str:
        return self.key.partition("#")[2]

    @property
    def input(self) -> ExecutionInput:
        return ExecutionInput.model_validate_json(self.execution_input)

    @property
    def is_finished(self) -> bool:
        """Ended, and nothing is owed any more."""
        return self.state.is_terminal and not self.owed

    @property
    def is_mark(self) -> bool:
        """Whether this row only holds the cancel mark of a job that has not been claimed yet."""
        return self.attempt == 0

    @property
    def open_kind(self) -> OpenKind | None:
        """Why this row still needs somebody's attention; None when nothing is left to do, or can be until its message comes."""
        if self.is_mark:
            return None
        if not self.state.is_terminal:
            return "RUNNING" if self.state is State.RUNNING else "RELEASED"
        return "OWED" if self.owed else None

    def owns(self, attempt: AttemptId) -> bool:
        return self.state is State.RUNNING and self.id == attempt

    def has_settled(self, attempt: AttemptId) -> bool:
        """Whether that attempt's outcome is in the row already. Attempts never go down, across runs too, so one number tells."""
        return self.settled_attempt >= attempt.attempt


@dataclass(frozen=True)
class Message:
    """One receive of a message with a valid request."""

    message_id: str
    receipt_handle: str
    receive_count: int
    received_at: datetime
    sent_at: datetime  # when this message was sent: SQS's retention counts from here
    first_sent_at: datetime  # when the job's first message was sent: the same, but for copies
    request: JobRequest
    key: str
    request_ref: str
    renews: str | None = None  # the message id that this copy stands for

    def wears_out(self, numbers: LeaseSettings, now: datetime) -> bool:
        """Whether SQS will soon give up on this message: too many receives, or too old."""
        return (
            self.receive_count >= numbers.renew_receives or (now - self.sent_at).total_seconds() >= numbers.renew_age_s
        )


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
        former_message_ids=_former(old, message) if old else (),
        receipt_handle=message.receipt_handle,
        receive_count=message.receive_count,
        received_at=message.received_at,
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
        task_arn=None,
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


def job_key(stage: str, job_id: str) -> str:
    return f"{stage}#{job_id}"


def key_hash(key: str) -> str:
    """20 hex digits: short enough for execution names and file names, long enough never to collide in practice (80 bits)."""
    return hashlib.sha256(key.encode()).hexdigest()[:20]


def pending_ref(attempt: AttemptId) -> str:
    """Where the pending uploads of an attempt are listed, in the data bucket."""
    return f"{INTERNAL_PREFIX}pending/{attempt.key_hash}/{attempt.run}-{attempt.attempt}.json"


def request_ref(key: str, message_id: str) -> str:
    """Where the request of that message is kept, in the data bucket: the same message always names the same object, so a repeated claim leaves nothing behind."""
    return f"{INTERNAL_PREFIX}requests/{key_hash(key)}/{message_id}.json"


def _former(old: Lease, message: Message) -> tuple[str, ...]:
    if message.message_id == old.message_id:
        return old.former_message_ids
    return (*old.former_message_ids, old.message_id)[-MAX_FORMER_MESSAGES:]


def _expiry(message: Message, first_wait_s: int, numbers: LeaseSettings, now: datetime) -> datetime:
    held = (now - message.received_at).total_seconds()
    return now + timedelta(seconds=schedule.visibility_s(first_wait_s, held, numbers))
