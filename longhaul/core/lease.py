"""The lease: who owns a job. Pure.

One row per job key, one attempt at a time, and a fencing token (`attempt`) that never goes down.

                claim                settle (success, permanent failure, last failure, cancel)
    (absent) ─────────► RUNNING ─────────────────────────────► SUCCEEDED | DEAD | CANCELLED
                         ▲   │ settle (failure, interruption)                    │
                  claim  │   ▼                            another message with   │
                        RELEASED ◄── the back-off passes    this key: DEAD and   │
                         ▲                                  CANCELLED start a    │
                         │                                  new run, a rerun     │
                         └──────────────────────── claim ◄─ does after any end ──┘

What a received message means for a row is in `core.claim`, what a beat does in `core.beat`, how an
attempt ends in `core.settlement`: all pure. `core.transitions` has each write.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_serializer

from longhaul.core.descent import MAX_GROUP, Group, Lineage, TreeWatch
from longhaul.core.places import INTERNAL_PREFIX
from longhaul.core.results import Results, read_results
from longhaul.core.settings import RuntimeSettings, Stage

REQUESTS_PREFIX = f"{INTERNAL_PREFIX}requests/"
"""Prefix of the data bucket for requests as they were claimed: no job may write there."""

# Replaces `#` and `/` where a key is part of a name; legal in neither stage names nor job ids.
_SEPARATOR = "!"

JOINED_PREFIX = f"{INTERNAL_PREFIX}joined/"
"""The same for the inputs of jobs that join a fan-out."""


Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]


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
    """What a terminal row still has to do, in this order.

    A row's message stays in its queue while something before DELETE is owed.
    """

    PUBLISH = "publish"
    FOLLOW_ONS = "follow_ons"
    DEAD_LETTER = "dead_letter"
    DELETE = "delete"


OpenKind = Literal["RUNNING", "RELEASED", "OWED", "TREE", "BACKFILL"]
"""Why something is in the index of what is left to do.

A row that is unfinished; or one that is finished, but the end of its tree is still to be told; or a
backfill whose end is.
"""


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
        """At most 80 characters, and never used twice.

        Step Functions forgets closed names after 90 days.
        """
        return self.token

    @property
    def token(self) -> str:
        """Part of the name of every output file."""
        return f"{self.key_hash}-{self.run}-{self.attempt}"


class ExecutionInput(BaseModel):
    """Input of a state machine execution, fixed at claim and stored in the row byte for byte.

    StartExecution is idempotent only for the same bytes. Unknown fields are ignored: executions
    live for days, and a deploy may change either side first.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: Literal[1] = 1
    key: str
    stage: str
    job_id: str
    run: int
    attempt: int
    engine: str
    # A Fargate capacity provider.
    capacity: Literal["FARGATE", "FARGATE_SPOT"] = "FARGATE"
    # Name or path of the job.
    job: str | None = None
    # What people call the job, for the lines that functions log about it.
    label: str | None = None
    # The same two as the tags of a task have them: no character that AWS would refuse. Never
    # missing in what is written: the state machine has no default for a field.
    job_tag: str = ""
    label_tag: str = ""
    size: str
    timeout_s: int
    first_wait_s: int

    @field_serializer("run", "attempt")
    def _as_text(self, value: int) -> str:
        # As strings: ECS environment values are strings, and Step Functions' number formatting is
        # unspecified.
        return str(value)

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.key, self.run, self.attempt)


def _read(stored: Any) -> Any:  # noqa: ANN401 - whatever a task wrote
    return read_results(stored) if isinstance(stored, dict) else stored


@dataclass(frozen=True)
class NamedOutput:
    """What a commit recorded of an output beside the main one, by its name in the request."""

    name: str
    files: Count
    size_bytes: Count
    # Not written: the row's `places` have it.
    prefix: Annotated[str, Field(exclude=True)] = field(default="", compare=False)


@dataclass(frozen=True)
class CommittedOutput:
    """What the commit recorded: from then on only this attempt's files become the output.

    A task writes it. So it names no place and no object: where the outputs are is in the row's
    `places`, and what was listed and emitted is found by the attempt's id. `prefix`, `files` and
    `size_bytes` are those of the main output.
    """

    attempt: Count
    files: Count
    size_bytes: Count
    # Not written: the row's `places` have it.
    prefix: Annotated[str, Field(exclude=True)] = field(default="", compare=False)
    # How many requests the job emitted for each stage. None: the stage decides what follows. A look
    # at the tree of a job with more than that would not end.
    emitted: dict[str, Annotated[Count, Field(le=MAX_GROUP)]] | None = None
    # A random text that goes along with what follows, so that no one else can send it.
    seal: str | None = None
    # What the job returned, counted and measured. None: nothing.
    results: Annotated[Results | None, BeforeValidator(_read)] = None
    # The other outputs, in the order of the request.
    beside: tuple[NamedOutput, ...] = ()

    def at(self, places: Mapping[str, str]) -> "CommittedOutput":
        """The same at the places of the row; an output that the request does not name is none."""
        named = (
            replace(each, prefix=places[each.name])
            for each in self.beside
            if each.name and each.name in places
        )
        return replace(self, prefix=places.get("", ""), beside=tuple(named))

    @property
    def by_name(self) -> dict[str, NamedOutput]:
        """All outputs; the name of the main one is empty."""
        main = NamedOutput("", self.files, self.size_bytes, self.prefix)
        return {each.name: each for each in (main, *self.beside)}

    @property
    def paths(self) -> dict[str, str]:
        """Of the other outputs, by name."""
        return {each.name: each.prefix for each in self.beside}


@dataclass(frozen=True)
class RecordedResult:
    """How the runner says that its attempt failed.

    `kind` is an outcome class of `core.verdict`.
    """

    attempt: Count
    kind: str
    error: str


@dataclass(frozen=True)
class Receive:
    """The job's message, as it was last received."""

    message_id: str
    renews: str | None = None  # of a copy: id of the first message of its chain
    receipt_handle: str | None = None  # None after a hand-over, until the next receive
    receive_count: int = 0
    received_at: datetime | None = None
    sent_at: datetime | None = None  # of this message: SQS's retention counts from here
    first_sent_at: datetime | None = None  # when the work was asked for
    # By whom, as SQS names a sender. None: by Longhaul, or through a copy, whose sender it is.
    sender: str | None = None
    # Of a released job: when its message was last received, or a copy was sent.
    seen_at: datetime | None = None

    @property
    def chain(self) -> str:
        """Id of its chain's first message: the same for a message and all its copies."""
        return self.renews or self.message_id

    def is_of(self, chain: str) -> bool:
        """Whether the row names a message of this chain."""
        return chain == self.chain


@dataclass(frozen=True)
class Attempt:
    """One attempt, from its claim on. The next attempt starts with a fresh value.

    Times are aware UTC; durations are seconds.
    """

    number: int  # the fencing token
    claimed_at: datetime
    lease_expires_at: datetime | None = None
    beats: int = 0
    beat_ages_s: tuple[int, ...] = ()  # its age at the latest beats, see `core.beat.beaten`
    resumes: str | None = None  # the record that it began from, see `saved.record`
    adoptions: int = 0  # receives of its message while it ran
    hand_overs: int = 0
    task_arn: str | None = None
    started_at: datetime | None = None  # when its task registered
    task_from: datetime | None = None  # the time that is paid for, as ECS reported it at the end
    task_until: datetime | None = None
    is_over: bool = False  # the end of its task is proved: the next run does not wait for it
    progress: dict[str, Any] = field(default_factory=dict)  # the runner's last report
    progress_at: datetime | None = None  # when the work last advanced, by the runner's clock
    reported_at: datetime | None = None  # the runner's last report, by the same clock
    result: RecordedResult | None = None
    output: CommittedOutput | None = None
    gone_at: datetime | None = None  # when its uploads were looked for, and were gone
    published_at: datetime | None = None

    @property
    def worked_until(self) -> datetime | None:
        """When the job's work last advanced; None when no task of Spark has ended yet."""
        # As the runner reports it. A job's own code may write anything there.
        match self.progress.get("tasks"):
            case [int(done), *_] if done > 0:
                return self.progress_at
        return None


@dataclass(frozen=True)
class DeadRun:
    """An earlier run of the job that died: what it was to do, and when it ended."""

    fingerprint: str
    ended_at: datetime


JobState = Literal[
    "QUEUED",
    "RUNNING",
    "RELEASED",
    "CANCELLING",
    "SUCCEEDED",
    "DEAD",
    "CANCELLED",
    "UNREADABLE",
]


@dataclass(frozen=True)
class Lease:
    """The row: a job, the latest receive of its message, and its latest attempt.

    Times are aware UTC; durations are seconds.
    """

    key: str
    stage: str
    run: int  # epoch ms of the first claim, or of a deliberate re-run
    state: State
    fingerprint: str
    request_ref: str  # object with the body and the producer's attributes
    execution_input: str  # of the latest attempt; it grows by a size when memory ran out
    max_attempts: int
    stall_timeout_s: int
    receive: Receive
    attempt: Attempt
    # What people call the job (`core.request`), as its run's first request did.
    label: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    # Where the run's request lets its outputs go, by their names; that of the main one is empty. A
    # task may not write it.
    places: dict[str, str] = field(default_factory=dict)
    lineage: Lineage | None = None  # None: submitted by a producer
    # Whether an earlier run of the job was begun: an append replaces what that had added.
    again: bool = False
    # Whether its success leads to nothing: what followed from the run before stays as it is.
    only: bool = False
    # The joins that belong to this run: each waits for all that descends from it.
    opens: tuple[str, ...] = ()
    # The stages to which its success leads by one job each, if it emits none: as the settings say
    # when it succeeds. Of a stage that was taken out since, as they said when the run began. None:
    # no attempt was claimed.
    leads_to: tuple[str, ...] | None = None
    # The stages behind its own whenever an attempt of the run was claimed: it can emit to no other.
    # A task may not write it. None: no attempt was claimed.
    may_emit_to: tuple[str, ...] | None = None
    # What the job has stored for its next attempt (`saved.record`): the record that counts, when it
    # was written, and the bytes that it names.
    saved_ref: str | None = None
    saved_at: datetime | None = None
    saved_bytes: int = 0
    failures: int = 0
    interruptions: int = 0
    # Interruptions of attempts that had stored something new: they do not count as such.
    resumptions: int = 0
    # When the first of the attempts was claimed that since then all were not placed, moved on by
    # the time in which none was tried. Kept while the next attempt runs.
    unplaced_since: datetime | None = None
    settled_attempt: int = 0
    owed: tuple[Owed, ...] = ()
    cancel_requested_at: datetime | None = None  # the mark: this run is to stop
    # The latest cancel, of any run: it covers what was sent before.
    cancelled_at: datetime | None = None
    # Of a root: the latest cancel of its tree. It covers what of the tree was sent before.
    tree_cancelled_at: datetime | None = None
    # Of a success that was cancelled before what follows was sent: nothing follows.
    cut_off: bool = False
    last_error: str | None = None
    last_class: str | None = None
    settled_at: datetime | None = None  # when the latest outcome was written
    # Earliest start of the next attempt; kept while it runs, to show its back-off.
    retry_at: datetime | None = None
    tree: TreeWatch | None = None  # of a root: what is known of the end of its tree
    dead_runs: tuple[DeadRun, ...] = ()  # earlier runs for other work, or the same

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.key, self.run, self.attempt.number)

    @property
    def job_id(self) -> str:
        return self.key.partition("#")[2]

    @property
    def root(self) -> str:
        """Key of the first job of the pipeline: its own, unless another job's success made it."""
        return self.lineage.root if self.lineage else self.key

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups that the job is in, outermost first; what it emits is in one more."""
        return self.lineage.groups if self.lineage else ()

    @property
    def has_joins(self) -> bool:
        """Whether a join belongs to the run, or to a job that it descends from."""
        return bool(self.opens) or any(group.opens for group in self.groups)

    @property
    def input(self) -> ExecutionInput:
        return ExecutionInput.model_validate_json(self.execution_input)

    @property
    def results(self) -> Results | None:
        """What the job of a success returned, counted and measured; None where there is nothing."""
        output = self.attempt.output if self.state is State.SUCCEEDED else None
        return output.results if output else None

    @property
    def is_finished(self) -> bool:
        """Ended, with nothing owed."""
        return self.state.is_terminal and not self.owed

    @property
    def run_began(self) -> datetime:
        """When its run began: a run is numbered by that, in milliseconds."""
        return datetime.fromtimestamp(self.run / 1000, UTC)

    @property
    def ended_at(self) -> datetime:
        """When the last attempt ended. Rows without that time say when it was claimed."""
        return self.settled_at or self.attempt.claimed_at

    @property
    def is_mark(self) -> bool:
        """Whether it was never claimed: the row holds a cancel mark, or a refusal."""
        return not self.execution_input

    @property
    def is_refused(self) -> bool:
        """Whether the job is dead because its message was refused: it never had an attempt."""
        return self.is_mark and self.state is State.DEAD

    @property
    def shown_state(self) -> JobState:
        """The state as people see it, or CANCELLING."""
        if self.cancel_requested_at and not self.state.is_terminal:
            return "CANCELLING"
        return self.state.value

    @property
    def is_open_mark(self) -> bool:
        """A cancel mark for which no message has come. It does not say that there is a job."""
        return self.is_mark and not self.state.is_terminal

    @property
    def is_watched(self) -> bool:
        """Whether the end of its tree is still to be told."""
        return self.is_finished and self.tree is not None and self.tree.is_due

    @property
    def open_kind(self) -> OpenKind | None:
        """What is left to do; None when nothing can be done until its message comes."""
        if self.is_watched:
            return "TREE"
        if self.state.is_terminal:
            return "OWED" if self.owed else None
        if self.is_mark:
            return None
        return "RUNNING" if self.state is State.RUNNING else "RELEASED"

    def has_seen(self, message_id: str, receive_count: int) -> bool:
        """Whether the row has this receive of its message, or a later one."""
        return message_id == self.receive.message_id and receive_count <= self.receive.receive_count

    def unseen_for(self, now: datetime) -> timedelta:
        """Time without a receive of a released job's message since its back-off passed."""
        due_at = self.retry_at or self.attempt.claimed_at
        return now - max(at for at in (due_at, self.receive.seen_at) if at)

    def unplaced_for(self, now: datetime) -> timedelta:
        """How long no attempt of this job could be placed; zero when one has a task."""
        since = self.unplaced_since
        is_placed = self.state is State.RUNNING and self.attempt.task_arn is not None
        if since is None or is_placed or self.state.is_terminal:
            return timedelta(0)
        return now - since

    def is_overdue(self, now: datetime, grace: timedelta) -> bool:
        """Whether this lease is held and was not renewed in time."""
        expires_at = self.attempt.lease_expires_at or self.attempt.claimed_at
        return self.state is State.RUNNING and now >= expires_at + grace

    def cancels(self, sent_at: datetime) -> bool:
        """Whether a cancel covers what was sent then.

        A message of the very millisecond of the cancel counts as sent after it: it can be cancelled
        again, and is not lost.
        """
        return self.cancelled_at is not None and sent_at < self.cancelled_at

    def cancels_tree(self, sent_at: datetime) -> bool:
        """Of a root: whether a cancel of its tree covers what was sent of it then."""
        return self.tree_cancelled_at is not None and sent_at < self.tree_cancelled_at

    @property
    def asked_at(self) -> datetime:
        """When the work of its run was asked for."""
        return self.receive.first_sent_at or self.attempt.claimed_at

    def is_cancelled_with_tree(self, root: "Lease | None") -> bool:
        """Whether a cancel of its tree, which stands in the row of its root, covers its run."""
        return root is not None and root.cancels_tree(self.asked_at)

    @property
    def is_committed(self) -> bool:
        """Whether its output is committed, so that no cancel can stop it."""
        return self.state is State.RUNNING and self.attempt.output is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancel covers this run's work.

        Without a mark too: the job had succeeded when it was cancelled, and its commit was void.
        """
        sent_at = self.receive.first_sent_at
        return self.cancel_requested_at is not None or (
            sent_at is not None and self.cancels(sent_at)
        )

    @property
    def is_cancel_open(self) -> bool:
        """Whether a cancel may still end this run: it goes on, or its commit may turn out void."""
        is_open = self.state is State.RUNNING or Owed.PUBLISH in self.owed
        return is_open and self.is_cancelled

    def was_over(self, sent_at: datetime) -> bool:
        """Whether the job had died or been cancelled when a message was sent.

        Asked of a message that no cancel covers.
        One of the very millisecond of the end counts as sent after it, so that it runs. A refusal
        ends nothing but itself: what was sent before it runs, too.
        """
        if self.is_refused:
            return True
        if self.state is State.DEAD:
            return self.settled_at is None or sent_at >= self.settled_at
        return self.state is State.CANCELLED

    def has_outlived(self, fingerprint: str, sent_at: datetime) -> bool:
        """Whether an earlier run for this work died after a message for it had been sent.

        The message is left over from that run, or doubles its message.
        """
        return any(
            run.fingerprint == fingerprint and sent_at < run.ended_at for run in self.dead_runs
        )

    @property
    def has_saved(self) -> bool:
        """Whether its latest attempt has stored something new."""
        return self.saved_ref is not None and self.saved_ref != self.attempt.resumes

    @property
    def kept_s(self) -> float:
        """Seconds of its latest attempt up to its last save: they are not lost with it."""
        if self.saved_at is None or not self.has_saved:
            return 0.0
        return max(0.0, (self.saved_at - self.attempt.claimed_at).total_seconds())

    def owns(self, attempt: AttemptId) -> bool:
        return self.state is State.RUNNING and self.id == attempt

    def has_settled(self, attempt: AttemptId) -> bool:
        """Whether that attempt's outcome is in the row.

        One number is enough, because attempts never go down, not even with a new run.
        """
        return self.settled_attempt >= attempt.attempt


def with_handle(lease: Lease, receipt_handle: str) -> Lease:
    """The row with the handle of a receive that is newer than its own."""
    return replace(lease, receive=replace(lease.receive, receipt_handle=receipt_handle))


def with_next(lease: Lease, settings: RuntimeSettings) -> Lease:
    """The row with the stages to which a success leads; as it is, if its own was taken out.

    They are kept, because what was counted at a join must be what is sent: a deploy may come in
    between.
    """
    stage = settings.stage_or_removed(lease.stage)
    if stage.is_removed:
        return lease
    return replace(lease, leads_to=plain_next(stage, settings))


def with_emission(lease: Lease, stage: Stage) -> Lease:
    """The row of an attempt that may emit to what follows its stage now.

    What an attempt before it could emit to stays: its code may have been deployed later than ours.
    """
    before = lease.may_emit_to or ()
    return replace(lease, may_emit_to=tuple(dict.fromkeys((*before, *stage.next))))


def plain_next(stage: Stage, settings: RuntimeSettings) -> tuple[str, ...]:
    return tuple(name for name in stage.next if not settings.stage(name).join)


def job_key(stage: str, job_id: str) -> str:
    return f"{stage}#{job_id}"


def stage_folders(stage: str) -> str:
    """Pattern of the keys in the data bucket below which a stage's jobs have what is their own.

    Each begins `longhaul/KIND/` and the job's `folder_name`. Roles are bounded by it.
    """
    return f"{INTERNAL_PREFIX}*/{stage}{_SEPARATOR}*"


def folder_name(key: str) -> str:
    """The job's key as one folder of an object's key, from which `key_of_folder` reads it."""
    return key.replace("#", _SEPARATOR).replace("/", _SEPARATOR)


def key_of_folder(name: str) -> str | None:
    """The job whose `folder_name` that is; None for a name of another form."""
    stage, separator, job_id = name.partition(_SEPARATOR)
    if not (stage and separator and job_id) or "/" in name:
        return None
    return job_key(stage, job_id.replace(_SEPARATOR, "/"))


def key_hash(key: str) -> str:
    """20 hex digits (80 bits): short enough for the names of executions and files."""
    return hashlib.sha256(key.encode()).hexdigest()[:20]


def emitted_ref(attempt: AttemptId) -> str:
    """Key of the object in the data bucket with the requests that an attempt emitted."""
    folder = folder_name(attempt.key)
    return f"{INTERNAL_PREFIX}emitted/{folder}/{attempt.run}-{attempt.attempt}.json"


def joined_ref(key: str, run: int) -> str:
    """Key of the object in the data bucket with the inputs of a job that joins a fan-out.

    `run`: of its lineage. What it joins when that has changed is another object.
    """
    return f"{JOINED_PREFIX}{key_hash(key)}-{run}.json"


def request_ref(key: str, message_id: str) -> str:
    """Key of the object in the data bucket with a message's request.

    The same message always names the same object, so a repeated claim leaves nothing behind.
    """
    return f"{REQUESTS_PREFIX}{folder_name(key)}/{message_id}.json"


ENDED: Final[tuple[JobState, ...]] = ("SUCCEEDED", "DEAD", "CANCELLED")

QUEUED: Final = "QUEUED"
"""The state of a job without a row: it waits in its queue, or was never sent."""

UNREADABLE: Final = "UNREADABLE"
"""The state of a job whose row this version cannot read: what it led to is not known."""
