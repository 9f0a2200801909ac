"""The lease: who owns a job. One row per job key, one attempt at a time, and a fencing token (`attempt`) that never goes down.

                claim                         settle (success, permanent failure, last failure, cancel)
    (absent) ─────────► RUNNING ─────────────────────────────────────► SUCCEEDED | DEAD | CANCELLED
                         ▲   │ settle (failure, interruption)                        │
                  claim  │   ▼                                                       │ another message with this key:
                        RELEASED ◄── the message waits out its back-off              │ DEAD and CANCELLED start a new run
                         ▲                                                           │ (attempt goes on counting)
                         └──────────────────────── claim ◄───────────────────────────┘

What a received message means for it is in `domain.claim`, what a beat does in `domain.beat`, how an attempt ends in `domain.outcome`: all pure.
`adapters.dynamodb_leases` turns each into one conditional write.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_serializer

from longhaul.domain.lineage import Lineage
from longhaul.domain.paths import INTERNAL_PREFIX
from longhaul.domain.request import JobRequest
from longhaul.settings import LeaseSettings


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
    FOLLOW_ONS = "follow_ons"
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
    # What runs. Jobs claimed by the version before this field have it in their request.
    job: str | None = None
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
    pending_ref: str  # where the pending uploads are listed, see `domain.pending`
    prefix: str
    files: int
    size_bytes: int
    emitted_ref: str | None = (
        None  # where the requests that the job emitted are kept; None when it left that to the stage
    )


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
    lineage: Lineage | None = None  # where it comes from, when another job's success made it
    failures: int = 0
    interruptions: int = 0
    former_message_ids: tuple[str, ...] = ()
    receipt_handle: str | None = None  # None after a hand-over, until the message is received again
    receive_count: int = 0
    received_at: datetime | None = None
    sent_at: datetime | None = None  # the message: SQS's retention counts from here
    first_sent_at: datetime | None = None
    lease_expires_at: datetime | None = None
    beats: int = 0  # of this attempt
    beat_ages_s: tuple[int, ...] = ()  # how old it was at the latest of them, see `domain.beat.beaten`
    adoptions: int = 0  # of this attempt: its message was received anew while it ran
    hand_overs: int = 0  # of this attempt
    task_arn: str | None = None
    started_at: datetime | None = None  # when that task registered
    task_from: datetime | None = None  # from when to when it is paid for, as ECS told at its end
    task_until: datetime | None = None
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
    seen_at: datetime | None = None  # of a released job: its message was there then, or was sent anew

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.key, self.run, self.attempt)

    @property
    def job_id(self) -> str:
        return self.key.partition("#")[2]

    @property
    def root(self) -> str:
        """Key of the job with which it all began: its own, unless another job's success made this one."""
        return self.lineage.root if self.lineage else self.key

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

    def has_seen(self, message: "Message") -> bool:
        """Whether the row has this receive of its message, or a later one."""
        return message.message_id == self.message_id and message.receive_count <= self.receive_count

    def unseen_for(self, now: datetime) -> timedelta:
        """For how long nothing has been heard of a released job's message, though its back-off has passed."""
        return now - max(at for at in (self.retry_at or self.claimed_at, self.seen_at) if at)

    def is_overdue(self, now: datetime, grace: timedelta) -> bool:
        """Whether this lease is held, and nobody has renewed it in time."""
        return self.state is State.RUNNING and now >= (self.lease_expires_at or self.claimed_at) + grace

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


def job_key(stage: str, job_id: str) -> str:
    return f"{stage}#{job_id}"


def key_hash(key: str) -> str:
    """20 hex digits: short enough for execution names and file names, long enough never to collide in practice (80 bits)."""
    return hashlib.sha256(key.encode()).hexdigest()[:20]


def emitted_ref(attempt: AttemptId) -> str:
    """Where the requests that an attempt emitted are kept, in the data bucket."""
    return f"{INTERNAL_PREFIX}emitted/{attempt.key_hash}/{attempt.run}-{attempt.attempt}.json"


def request_ref(key: str, message_id: str) -> str:
    """Where the request of that message is kept, in the data bucket: the same message always names the same object, so a repeated claim leaves nothing behind."""
    return f"{INTERNAL_PREFIX}requests/{key_hash(key)}/{message_id}.json"
