"""What the use cases need from the world. `longhaul.adapters` implements these with boto3; the tests' fakes obey the same contract tests."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from longhaul.domain.claim import Claim
from longhaul.domain.dead_letter import DeadLetter
from longhaul.domain.follow_ons import Emitted
from longhaul.domain.history import Attempt
from longhaul.domain.lease import AttemptId, CommittedOutput, Lease, Message, OpenKind, Owed, RecordedResult, State
from longhaul.domain.message import MessageContent
from longhaul.domain.outcome import Evidence
from longhaul.metrics import Metric
from longhaul.settings import Stage


class Clock(Protocol):
    def now(self) -> datetime:
        """Aware UTC."""

    def sleep(self, seconds: float) -> None: ...


class LeaseStore(Protocol):
    """Each method that writes is one conditional write. All raise LeaseChangedError with the row that won when the condition fails."""

    def load(self, key: str) -> Lease | None: ...

    def load_many(self, keys: Iterable[str]) -> Mapping[str, Lease]:
        """The rows that exist, by key; strongly consistent."""

    def survey(self, keys: Iterable[str], stage: Stage, now: datetime) -> tuple[Mapping[str, Lease], int]:
        """`load_many` and `free_slots` in one call."""

    def history(self, rows: Iterable[Lease]) -> Mapping[str, Sequence[Attempt]]:
        """The attempts of each job, by its key and in their order, as far as they are remembered; a hundred items in one call."""

    def free_slots(self, stage: Stage, now: datetime) -> int:
        """Slots free a moment ago, under the effective limit; raises that limit by one for each calm minute."""

    def slots_in_use(self, stage: Stage) -> int:
        """How many slots are taken, a moment ago."""

    def claim(self, claim: Claim, stage: Stage) -> None:
        """Take the job and a slot. Raises NoFreeSlotError when the stage is full, and then nothing is written."""

    def adopt(self, lease: Lease, message: Message) -> Lease:
        """Store a newer receive's handle iff the attempt owns the lease and the message is a newer receive of the row's, or the copy that renews it."""

    def beat(self, lease: Lease, now: datetime, lease_expires_at: datetime) -> Lease:
        """Note a beat of the row's attempt iff it owns the lease."""

    def hand_over(self, attempt: AttemptId, receipt_handle: str) -> Lease:
        """Clear the handle iff the attempt owns the lease and the row still has that handle."""

    def register_task(self, attempt: AttemptId, task_arn: str, now: datetime) -> Lease:
        """The runner's first write: iff the attempt owns the lease and no other task has registered."""

    def report_progress(self, attempt: AttemptId, progress: Mapping[str, Any], progress_at: datetime) -> Lease:
        """Store the runner's progress iff the attempt owns the lease; the answer shows a cancel mark."""

    def record_result(self, attempt: AttemptId, result: RecordedResult) -> Lease:
        """Store how the runner says that it failed, iff the attempt owns the lease and nothing is committed."""

    def commit(self, attempt: AttemptId, output: CommittedOutput) -> Lease:
        """Make the pending uploads the job's output, iff the attempt owns the lease, is not cancelled and nothing is committed yet."""

    def mark_published(self, attempt: AttemptId, now: datetime) -> Lease:
        """Note that the committed output is visible, iff the attempt still owns the lease (after a settle, `strike` notes it)."""

    def settle(self, before: Lease, after: Lease) -> None:
        """End the attempt: iff it owns the lease and what is committed is as in `before`; gives the slot back, and keeps what is to be remembered."""

    def end_waiting(self, before: Lease, after: Lease) -> None:
        """End a released job without an attempt, iff the row still is as in `before`."""

    def strike(self, lease: Lease, done: Owed, now: datetime) -> Lease:
        """Strike off what was owed, iff the row still owes it for this run and attempt; striking it off twice is harmless."""

    def reopen(self, lease: Lease, now: datetime) -> Lease:
        """A committed output turned out to be void (its uploads are gone): clear it, so that the job runs again."""

    def request_cancel(self, key: str, stage: str, now: datetime) -> Lease:
        """Mark the job as cancelled iff it has not ended, also before its message was claimed; answers the row as it is then."""

    def arrive(self, join_key: str, n: int, size: int, output: str, now: datetime) -> Mapping[int, str] | None:
        """Note that the `n`th of a group of `size` has come to a join, with its output. All outputs by place once all are there, else None; repeatable."""

    def note_seen(self, lease: Lease, now: datetime) -> Lease:
        """Note that a released job's message is there, or was sent anew, iff the row still waits for the same attempt."""

    def blocked_s(self, stage: Stage, *, waiting: bool, now: datetime) -> float:
        """For how many seconds messages have waited although slots were free, as far as these calls saw it. A claim, or a call that finds it otherwise, ends it."""

    def throttled(self, stage: Stage, now: datetime) -> None:
        """AWS could not give more: halve the stage's effective limit, at most once a minute."""

    def open_keys(self, stage: str, what: OpenKind) -> Iterator[str]:
        """Keys of the rows that run, wait for their next attempt, or have ended and still owe something; through the index, so a little late."""

    def keys_of_root(self, root: str) -> Iterator[str]:
        """Keys of all jobs that began with the job `root`, itself included; through an index, so a little late."""

    def ended_keys(self, stage: str, state: State, until: datetime) -> Iterator[tuple[datetime, str]]:
        """When and keys of the rows that ended in that state, the latest first; through an index, so a little late."""


Visibility = Literal["set", "not_held", "beyond_limit"]
"""What SQS made of a new visibility timeout. `not_held`: this handle no longer holds the message, look at the row. `beyond_limit`: 12 h are up."""


@dataclass(frozen=True)
class SendAnswer:
    """What became of one message: its id, or why it was refused. `again`: trying again may help."""

    message_id: str | None = None
    reason: str = ""
    again: bool = False


class JobQueue(Protocol):
    def set_visibility(self, queue_url: str, receipt_handle: str, seconds: int) -> Visibility: ...

    def set_visibility_many(self, queue_url: str, seconds_by_handle: Mapping[str, int]) -> None:
        """The same for many, in batches. A handle that no longer holds its message is passed over."""

    def delete(self, queue_url: str, receipt_handle: str) -> bool: ...

    def send(self, queue_url: str, message: MessageContent) -> None: ...

    def backlog(self, queue_url: str) -> int:
        """About how many messages are visible."""

    def send_many(self, queue_url: str, messages: Iterable[MessageContent]) -> None:
        """Send all, in batches. Raises when SQS would not take some: those before may have been sent."""

    def send_batch(self, queue_url: str, messages: Sequence[MessageContent]) -> Sequence[SendAnswer]:
        """What became of each, in order; at most ten, of 1 MiB together."""


class DeadLetters(Protocol):
    """A dead-letter queue, for people: looked at, sent back, dropped."""

    def waiting(self, queue_url: str) -> int:
        """How many are there, about."""

    def receive(self, queue_url: str, hold_s: int) -> Sequence[DeadLetter]:
        """Some of them, invisible to others for `hold_s`; empty when there are no more."""

    def release(self, queue_url: str, receipt_handles: Sequence[str]) -> None:
        """Let them show again."""

    def delete(self, queue_url: str, receipt_handle: str) -> bool: ...


@dataclass(frozen=True)
class LogEvent:
    at: datetime
    text: str


class JobLogs(Protocol):
    def find_stream(self, group: str, phrase: str, matches: Callable[[str], bool], since: datetime) -> str | None:
        """The stream of the first event that holds `phrase` and matches; searches the whole group from `since` on."""

    def read(self, group: str, stream: str, token: str | None) -> tuple[Sequence[LogEvent], str | None]:
        """A page of a stream from its head, and the token of what follows: the same token again when there is nothing yet. No token: no such stream yet."""

    def tail(self, group: str, stream: str, count: int) -> Sequence[LogEvent]:
        """The last lines of a stream, in their order; at most `count`."""


class Metrics(Protocol):
    def put(self, values: Mapping[Metric, float], **dimensions: str) -> None:
        """Record these values, of now, under these dimensions. At least one of each."""


class Executions(Protocol):
    def ensure_started(self, name: str, execution_input: str) -> str | None:
        """Start the execution unless it runs already. None = it runs (or starts now); else the status in which it closed, such as `ABORTED`."""

    def arn(self, name: str) -> str: ...

    def status(self, name: str) -> str | None:
        """`RUNNING`, `SUCCEEDED`, `FAILED`, `TIMED_OUT`, `ABORTED`; None when there is no such execution."""


@dataclass(frozen=True)
class RunningTask:
    """A task of ours, and the attempt that its environment names."""

    arn: str
    attempt: AttemptId


@dataclass(frozen=True)
class StoppedTask:
    """A task that was told to stop. `is_gone`: nothing of it runs any more. `ended_as`: how it had ended by itself before."""

    is_gone: bool
    ended_as: Evidence | None = None


class Tasks(Protocol):
    def running(self) -> Iterator[RunningTask]:
        """The tasks that run or start now."""

    def stop(self, task_arn: str, reason: str) -> StoppedTask:
        """Stop a task; no error when it is being stopped, or has stopped already."""


class RequestStore(Protocol):
    def put(self, ref: str, request: MessageContent) -> None:
        """Store under `ref`; repeating it is harmless."""

    def get(self, ref: str) -> MessageContent: ...

    def put_emitted(self, ref: str, emitted: Emitted) -> None:
        """Keep the requests that an attempt emitted, before its commit names them."""

    def get_emitted(self, ref: str) -> Emitted: ...


class Publisher(Protocol):
    def publish(self, output: CommittedOutput) -> None:
        """Make a committed output visible; repeatable by anyone.

        Raises:
            VoidCommitError: its uploads are gone, nothing can become visible: the job has to run again.
        """

    def discard(self, attempt: AttemptId) -> None:
        """Abort what an attempt that did not commit left pending; repeatable.

        Its pending list (`domain.pending`) names the uploads: the runner writes it once all are created and before the first part is sent. Nothing
        there = nothing to do; the bucket's lifecycle rule takes what a crash in between leaves.
        """

    def listed(self) -> Iterator[AttemptId]:
        """The attempts whose pending list is still there."""

    def strike_off(self, attempts: Iterable[AttemptId]) -> None:
        """Remove their pending lists: nothing of theirs is pending any more."""
