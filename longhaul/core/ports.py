"""What the use cases need from the world, and the context that hands it to them.

Adapters implement these with boto3. The simulation's fakes stand behind the same
adapters, and obey the same contract tests as AWS's own.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeVar

from longhaul.core.descent import Emitted
from longhaul.core.engine import Engines
from longhaul.core.errors import UnreadableRowError
from longhaul.core.history import AttemptRecord
from longhaul.core.lease import (
    AttemptId,
    Lease,
    OpenKind,
    State,
)
from longhaul.core.message import Message
from longhaul.core.metrics import Metric
from longhaul.core.pace import Room, SlotUse
from longhaul.core.settings import LeaseSettings, RuntimeSettings, Stage
from longhaul.core.transitions import Change, Report
from longhaul.core.verdict import StoppedTask

T = TypeVar("T")


class Clock(Protocol):
    def now(self) -> datetime:
        """Aware UTC."""

    def sleep(self, seconds: float) -> None: ...


class Timer(Protocol):
    def cancel(self, *, wait_s: float = 0) -> None:
        """Begin no more calls, and wait up to `wait_s` for one that has begun."""


class Background(Protocol):
    """Work beside the caller's own."""

    def after(self, seconds: float, do: Callable[[], None]) -> Timer:
        """Call `do` once, in `seconds`."""

    def every(self, period_s: float, do: Callable[[], None]) -> Timer:
        """Call `do` again and again, `period_s` after the call before has returned.

        The first call comes after one period; an error ends the calls.
        """

    def run_all(
        self, tasks: Sequence[Callable[[], T]], *, at_once: int, within_s: float | None = None
    ) -> list[T]:
        """Run all tasks, at most `at_once` at a time, and return what they return, in order.

        The first error is raised once the tasks that have begun are over; no more are begun.
        After `within_s` TimeUpError is raised, and the tasks that have begun go on by themselves.
        """


class Rows(Mapping[str, Lease]):
    """Rows by key: those that this version can read.

    Iteration passes over the others, whose keys are in `unreadable`. A lookup of one of them, by
    `get` too, raises UnreadableRowError: it must not be taken for absent.
    """

    def __init__(
        self, readable: Mapping[str, Lease], unreadable: AbstractSet[str] = frozenset()
    ) -> None:
        self._readable = readable
        self.unreadable = unreadable

    def __getitem__(self, key: str) -> Lease:
        if key in self.unreadable:
            raise UnreadableRowError(key)
        return self._readable[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._readable)

    def __len__(self) -> int:
        return len(self._readable)


class Leases(Protocol):
    """The rows, and their keys through the table's indexes: a little late, so rows must be read."""

    def load(self, key: str) -> Lease | None:
        """Raises UnreadableRowError for a row of another version."""

    def load_many(self, keys: Iterable[str]) -> Rows:
        """The rows that exist, by key; strongly consistent."""

    def survey(self, keys: Iterable[str], stage: Stage, now: datetime) -> tuple[Rows, Room]:
        """`load_many` and `Slots.room` in one call."""

    def history(self, rows: Iterable[Lease]) -> Mapping[str, Sequence[AttemptRecord]]:
        """The known attempts of each job, by its key and in their order.

        Those that another version wrote in a form of its own are left out.
        """

    def open_keys(self, stage: str, what: OpenKind) -> Iterator[str]:
        """Keys of what is left to do.

        Rows that run, wait for their next attempt, or have ended and owe something; rows of roots
        whose tree's end is still to be told; and backfills whose end is.
        """

    def stages(self, deployed: Iterable[str]) -> AbstractSet[str]:
        """The names of all stages that this was ever called with: also those removed since."""

    def ended_keys(
        self, stage: str, state: State, until: datetime, since: datetime, keys: int = ...
    ) -> Iterator[tuple[datetime, str]]:
        """End and key of the rows that ended in that state, the latest first.

        `keys`: on a page, each a call, of which AWS gives some thousands at most.
        """

    def apply(self, change: Change) -> Lease:
        """One conditional write of a row that was read; returns the row after it.

        Raises:
            LeaseChangedError: the row does not meet a clause; with the row that won.
            NoFreeSlotError: the stage is full. Nothing is written.
        """

    def report(self, report: Report) -> Lease:
        """One conditional write by the attempt that owns the lease; returns the row after it.

        Raises LeaseChangedError like `write`.
        """

    def keep(self, key: str, now: datetime) -> None:
        """Let an ended row live for as long as one whose job ended now; nothing for other rows."""

    def request_cancel(self, key: str, stage: str, at: datetime | None = None) -> Lease:
        """Cancel what was sent up to now, by AWS's clock, or up to the time of another cancel.

        A job that runs or waits is marked, also before its first claim. A job that has ended, or
        has committed its output, stays as it is, and a message that waits to run it again is
        covered.
        """

    def cancel_tree(self, root: str) -> None:
        """Cancel what was sent up to now of the tree of a root, by AWS's clock."""

    def aws_time(self) -> datetime:
        """Now, by the clock of the service that answered `load` last: right within two seconds.

        SQS's times of sending can be compared with it, which a host's own clock is no match for.
        """


class Slots(Protocol):
    """How many jobs of a stage may run at once. Claims and settles change the number in use."""

    def room(self, stage: Stage, now: datetime) -> Room:
        """The slots a moment ago: those free under the limit, and how soon others become free.

        Each calm minute raises the limit by a half.
        """

    def use(self, stage: Stage) -> SlotUse:
        """The stage's slots a moment ago."""

    def pause(self, stage: Stage, now: datetime) -> None:
        """From now on no job of the stage is claimed; repeatable."""

    def resume(self, stage: Stage, now: datetime) -> None:
        """From now on let jobs be claimed again; repeatable."""

    def set_slots(self, stage: Stage, slots: int) -> None:
        """Let that many jobs run, whatever is deployed, at once and without an adapted limit.

        The deployed number: the deployment decides again.
        """

    def blocked_s(self, stage: Stage, *, waiting: bool, now: datetime) -> float:
        """Seconds for which messages have waited although slots were free.

        As far as these calls saw it; a claim, or a call that finds otherwise, ends it.
        """

    def slow_down(self, stage: Stage, now: datetime) -> None:
        """AWS throttled a start: let fewer jobs start in a second, for some seconds."""

    def lower_limit(self, stage: Stage, now: datetime) -> None:
        """AWS refused a task: halve the stage's effective limit, at most once a minute."""


class Troubles(Protocol):
    def counts(self, error: Exception) -> bool:
        """Whether the same work would raise it again; never for errors of AWS's side."""

    def is_hopeless(self, key: str, place: str, error: Exception, now: datetime) -> bool:
        """Count an error at a place of a job's life, if it `counts`; whether it was the last."""


@dataclass(frozen=True)
class Depth:
    """About how many messages a queue holds: `visible`, and `hidden` by a receive."""

    visible: int
    hidden: int


Visibility = Literal["set", "not_held", "beyond_limit"]
"""What became of a new visibility timeout.

`not_held`: this handle no longer holds the message, look at the row. `beyond_limit`: 12 h are up.
"""


@dataclass(frozen=True)
class SendResult:
    """What became of one message: its id, or why it was refused.

    `again`: trying again may help. `is_refused`: SQS will never take this message.
    """

    message_id: str | None = None
    reason: str = ""
    again: bool = False
    is_refused: bool = False


class JobQueue(Protocol):
    def set_visibility(self, queue_url: str, receipt_handle: str, seconds: int) -> Visibility: ...

    def set_visibility_many(self, queue_url: str, seconds_by_handle: Mapping[str, int]) -> None:
        """The same for many, in batches.

        A handle that no longer holds its message is passed over.
        """

    def delete(self, queue_url: str, receipt_handle: str) -> bool:
        """False when the handle no longer holds the message."""

    def send(self, queue_url: str, message: Message) -> None: ...

    def depth(self, queue_url: str) -> Depth:
        """About how many messages are in the queue."""

    def send_many(
        self, queue_url: str, messages: Iterable[Message]
    ) -> Sequence[tuple[Message, str]]:
        """Send all, in batches; returns those that SQS will never take, each with the reason.

        Raises when SQS does not take some for now: those before may have been sent.
        """

    def send_batch(self, queue_url: str, messages: Sequence[Message]) -> Sequence[SendResult]:
        """What became of each, in order; at most ten, of 1 MiB together."""


class Metrics(Protocol):
    def put(self, values: Mapping[Metric, float], **dimensions: str) -> None:
        """Record these values, of now, under these dimensions. At least one of each."""

    def put_of_job(self, values: Mapping[str, float], *, stage: str, job: str) -> None:
        """Record what a job has measured, by names of its own. `job`: see `metrics.dimension`."""


class Executions(Protocol):
    def ensure_started(self, name: str, execution_input: str) -> str | None:
        """Start the execution unless it runs already.

        None = it runs (or starts now); else the status in which it closed, such as `ABORTED`.
        """

    def arn(self, name: str) -> str: ...

    def status(self, name: str) -> str | None:
        """`RUNNING`, `SUCCEEDED`, `FAILED`, `TIMED_OUT`, `ABORTED`; None: no such execution."""


@dataclass(frozen=True)
class RunningTask:
    """A task of ours, and the attempt that its environment names."""

    arn: str
    attempt: AttemptId


class Tasks(Protocol):
    def running(self) -> Iterator[RunningTask]:
        """The tasks that run or start now."""

    def stop(self, task_arn: str, attempt: AttemptId, reason: str) -> StoppedTask:
        """Stop a task if it is of that attempt; no error when it stops, or has stopped already.

        A task may write any `task_arn` into its row: one of another attempt counts as gone.
        """


class Requests(Protocol):
    """Requests of jobs, and what jobs emitted, beside their rows."""

    def put(self, ref: str, request: Message) -> None:
        """Store under `ref`; repeatable."""

    def get(self, ref: str) -> Message: ...

    def get_stored(self, ref: str) -> Message | None:
        """None when nothing is stored there any more."""

    def put_emitted(self, ref: str, emitted: Emitted) -> None:
        """Store the requests that an attempt emitted, before its commit names them."""

    def get_emitted(self, ref: str) -> Emitted: ...

    def put_inputs(self, ref: str, inputs: Mapping[str, str]) -> None:
        """Store the inputs of a join."""

    def get_inputs(self, ref: str) -> Mapping[str, str] | None:
        """None when nothing is stored there."""


_MARGIN = timedelta(seconds=10)
"""For the answer of an invocation, and for what is short and comes after the long work."""


@dataclass(frozen=True, kw_only=True)
class Context:
    settings: RuntimeSettings
    engines: Engines
    clock: Clock
    rng: random.Random
    background: Background
    leases: Leases
    slots: Slots
    troubles: Troubles
    queue: JobQueue
    executions: Executions
    tasks: Tasks
    requests: Requests
    metrics: Metrics

    @property
    def timing(self) -> LeaseSettings:
        return self.settings.lease

    def deadline(self, remaining_ms: int) -> datetime:
        """The time by which an invocation with `remaining_ms` left stops its long work.

        A function that Lambda ends repeats what it did. What is left at the deadline is still in
        the queue, or owed in its row, and another invocation goes on with it.
        """
        return self.clock.now() + timedelta(milliseconds=remaining_ms) - _MARGIN

    def left_s(self, until: datetime | None) -> float | None:
        """Seconds until then; None where nothing ends the work."""
        return None if until is None else (until - self.clock.now()).total_seconds()
