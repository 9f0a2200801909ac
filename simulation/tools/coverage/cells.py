"""Which cells of the tables in `docs/lease.md` a world reaches.

What decides is watched, and the row that it meets is named as the page names it. A name that this
module gives and the page lacks is a mistake, here or there.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import longhaul.dispatch
import longhaul.heartbeat
import longhaul.sweep
from longhaul.adapters.dynamodb.item import from_item
from longhaul.domain.beat import Beat, Extend, HandOver, Kill
from longhaul.domain.claim import Decision
from longhaul.domain.lease import AttemptId, Lease, State, job_key
from longhaul.domain.message import JobMessage
from longhaul.domain.verdict import Evidence
from longhaul.operations.cancel import Canceller
from longhaul.settings import LeaseSettings, Stage
from longhaul.settle import Settler
from longhaul.sweep import Sweeper
from simulation.tools.coverage.page import table

if TYPE_CHECKING:
    from simulation.worlds.world import World

RECEIVED = "A message is received"
BEAT, END, CANCEL = "A beat", "An attempt ends", "A cancel"
SWEEP, PENDING = "A sweep", "What an attempt left pending"
TITLES = (BEAT, END, CANCEL, SWEEP, PENDING)


_IMPOSSIBLE = "\N{EN DASH}"


class Cell(NamedTuple):
    """Of the tables, only that of received messages has columns that differ by what is met."""

    table: str
    row: str
    column: str = ""

    def __str__(self) -> str:
        return f"{self.table}: {self.row}{' / ' if self.column else ''}{self.column}"


def cells_of_page() -> list[Cell]:
    received = [
        Cell(RECEIVED, row["row"], column)
        for row in table(RECEIVED)
        for column, what in row.items()
        if column != "row" and what != _IMPOSSIBLE
    ]
    others = [Cell(title, next(iter(row.values()))) for title in TITLES for row in table(title)]
    return received + others


class Cells:
    """Counts the cells that worlds reach."""

    def __init__(self) -> None:
        self.reached: Counter[Cell] = Counter()
        self.world: World | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """For as long as worlds run; `world` is the one that runs."""
        watchers: Sequence[tuple[Any, str, Callable[[Any], Any]]] = (
            (longhaul.dispatch, "decide_claim", self._received),
            (longhaul.heartbeat, "decide_beat", self._beat),
            (longhaul.sweep, "decide_pending", self._pending),
            (Settler, "settle", self._settle),
            (Canceller, "cancel", self._cancel),
            (Sweeper, "sweep", self._sweep),
        )
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in watchers]
        for owner, name, watch in watchers:
            setattr(owner, name, watch(getattr(owner, name)))
        try:
            yield
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)

    def _note(self, title: str, row: str, column: str = "") -> None:
        self.reached[Cell(title, row, column)] += 1

    def _row(self, key: str) -> Lease | None:
        """The row as stored: without a call, which would make another world."""
        item = self.world.seen.rows.get(key) if self.world else None
        return from_item(item) if item else None

    def _received(self, decide: Callable[..., Decision]) -> Callable[..., Decision]:
        def watched(
            row: Lease | None,
            message: JobMessage,
            stage: Stage,
            timing: LeaseSettings,
            now: datetime,
        ) -> Decision:
            for column in received_columns(row, message):
                self._note(RECEIVED, received_row(row, message, now), column)
            return decide(row, message, stage, timing, now)

        return watched

    def _beat(self, decide: Callable[..., Beat]) -> Callable[..., Beat]:
        def watched(
            lease: Lease | None, attempt: AttemptId, timing: LeaseSettings, now: datetime
        ) -> Beat:
            beat = decide(lease, attempt, timing, now)
            self._note(BEAT, beaten_row(lease, attempt, beat, now))
            return beat

        return watched

    def _pending(self, decide: Callable[..., str]) -> Callable[..., str]:
        def watched(
            attempt: AttemptId, row: Lease | None, timing: LeaseSettings, now: datetime
        ) -> str:
            decision = decide(attempt, row, timing, now)
            self._note(PENDING, pending_row(attempt, row, decision))
            return decision

        return watched

    def _settle(self, settle: Callable[..., Any]) -> Callable[..., Any]:
        def watched(
            settler: Settler, attempt: AttemptId, evidence: Evidence, until: datetime | None = None
        ) -> Any:
            self._note(END, settled_row(self._row(attempt.key), attempt))
            return settle(settler, attempt, evidence, until)

        return watched

    def _cancel(self, cancel: Callable[..., Any]) -> Callable[..., Any]:
        def watched(canceller: Canceller, stage: str, job_id: str) -> Any:
            self._note(CANCEL, cancelled_row(self._row(job_key(stage, job_id))))
            return cancel(canceller, stage, job_id)

        return watched

    def _sweep(self, sweep: Callable[..., Any]) -> Callable[..., Any]:
        def watched(sweeper: Sweeper, until: datetime | None = None) -> Any:
            now = sweeper.context.clock.now()
            for key in list(self.world.seen.rows if self.world else ()):
                row = self._row(key)
                if row is not None:
                    self._note(SWEEP, swept_row(row, self._status(row), sweeper, now))
            return sweep(sweeper, until)

        return watched

    def _status(self, row: Lease) -> str | None:
        executions = self.world.aws.stepfunctions.executions if self.world else {}
        name = row.id.execution_name
        return next((each.status for each in executions.values() if each.name == name), None)


def _is_waiting_mark(row: Lease) -> bool:
    """A mark whose message has come is an ended job."""
    return row.is_mark and not row.state.is_terminal


def received_row(row: Lease | None, message: JobMessage, now: datetime) -> str:
    if row is None:
        return "absent"
    if _is_waiting_mark(row):
        return "cancel mark before any claim"
    name = row.state.value
    match row.state:
        case State.RUNNING:
            return f"{name}, cancel marked" if row.cancel_requested_at else name
        case State.RELEASED:
            if row.cancel_requested_at:
                return f"{name}, cancel marked"
            is_early = row.retry_at and now < row.retry_at
            return f"{name}, back-off {'to come' if is_early else 'passed'}"
        case State.SUCCEEDED:
            return f"{name}, to be published, cancelled since" if row.is_cancel_open else name
        case State.DEAD if not row.was_over(message.first_sent_at):
            return f"{name} since it was sent"
        case State.DEAD:
            name = f"{name} when it was sent"
    return f"{name}, {'something' if row.owed else 'nothing'} owed"


def received_columns(row: Lease | None, message: JobMessage) -> Sequence[str]:
    """The columns of a message; several where the row has no request to compare with."""
    if row is not None and message.message_id == row.receive.message_id:
        return ["own message"]
    if row is not None and row.receive.is_of(message.message_id, message.chain):
        named_at = row.receive.sent_at
        return ["replaced" if named_at and message.sent_at < named_at else "copy"]
    if row is not None and row.cancels(message.first_sent_at):
        return ["cancelled"]
    if row is None and message.renews:
        return ["copy"]
    if row is None or row.is_mark:
        return ["follow-on"] if message.is_follow_on else ["same work", "other work"]
    if message.is_follow_on and message.request.lineage == row.lineage:
        return ["follow-on"]
    is_same = message.request.fingerprint() == row.fingerprint
    return ["same work" if is_same else "other work"]


def beaten_row(lease: Lease | None, attempt: AttemptId, beat: Beat, now: datetime) -> str:
    if lease is None:
        return "absent"
    if lease.state is not State.RUNNING:
        return lease.state.value
    if lease.id != attempt:
        settled = lease.has_settled(attempt)
        return f"RUNNING, another attempt, mine {'' if settled else 'never '}settled"
    match beat:
        case Kill(reason="JobCancelled"):
            return "RUNNING, mine, cancel marked"
        case Kill() if lease.attempt.progress_at is None:
            return "RUNNING, mine, no sign of life for start_timeout"
        case Kill():
            return "RUNNING, mine, no progress for stall_timeout"
        case HandOver():
            return "RUNNING, mine, held for 11 h 30 min"
        case Extend(receipt_handle=None):
            is_hidden = lease.receive.receipt_handle is not None
            return f"RUNNING, mine, {'hidden for long enough' if is_hidden else 'no handle'}"
    progress_at = lease.attempt.progress_at
    if progress_at and now - progress_at >= timedelta(seconds=lease.stall_timeout_s):
        return "RUNNING, mine, no progress for stall_timeout, nor a beat"
    return "RUNNING, mine"


def pending_row(attempt: AttemptId, row: Lease | None, decision: str) -> str:
    if row is None:
        return "has no row"
    if attempt.run < row.run:
        return "is of an older run"
    if attempt != row.id:
        return "is older than the row's" if attempt < row.id else "is newer than the row's"
    if row.state is State.RUNNING:
        return "has committed, and runs" if row.attempt.output else "runs"
    if row.state is State.SUCCEEDED:
        published = row.attempt.published_at
        return "has published" if published else "has succeeded, and owes its publish"
    if decision == "keep":
        return "was settled without a commit a moment ago"
    if row.state is State.RELEASED:
        return "was settled without a commit"
    return "has left a dead or cancelled job"


def settled_row(row: Lease | None, attempt: AttemptId) -> str:
    if row is None:
        return "absent"
    if row.state is not State.RUNNING:
        return f"{row.state.value}, by {'me' if row.id == attempt else 'a later attempt'}"
    if row.id != attempt:
        return "RUNNING, another attempt"
    if row.attempt.output:
        return "RUNNING, mine, output committed"
    if row.cancel_requested_at:
        return "RUNNING, mine, cancel marked"
    is_last = row.failures + 1 >= row.max_attempts
    return "RUNNING, mine, its last failure" if is_last else "RUNNING, mine"


def cancelled_row(row: Lease | None) -> str:
    if row is None:
        return "absent"
    if _is_waiting_mark(row):
        return "cancel mark before any claim"
    if row.state is State.RUNNING and row.attempt.output:
        return "RUNNING, output committed"
    if row.state is State.RUNNING:
        return "RUNNING, cancel marked" if row.cancel_requested_at else "RUNNING"
    return row.state.value


def swept_row(row: Lease, status: str | None, sweeper: Sweeper, now: datetime) -> str:
    lease = sweeper.context.settings.lease
    if _is_waiting_mark(row):
        return "cancel mark before any claim"
    if row.state is State.RUNNING:
        if not row.is_overdue(now, timedelta(seconds=lease.visibility_margin_s)):
            return "RUNNING, lease kept up"
        if status is None:
            return "RUNNING, lease overdue, never started"
        runs = status == "RUNNING"
        return f"RUNNING, lease overdue, execution {'runs' if runs else 'closed'}"
    if row.state is State.RELEASED:
        if row.retry_at and now < row.retry_at:
            return "RELEASED, back-off to come"
        missing = row.unseen_for(now) >= timedelta(seconds=lease.missing_after_s)
        return "RELEASED, message missing for 6 h" if missing else "RELEASED, waiting for a slot"
    return f"ended, {'something' if row.owed else 'nothing'} owed"


def state_of(row: Mapping[str, Any] | None) -> str:
    """The state of a stored row, as far as an act may care."""
    if row is None:
        return "absent"
    lease = from_item(row)
    if _is_waiting_mark(lease):
        return "cancel mark"
    name = lease.state.value
    if lease.state is State.RUNNING:
        if lease.attempt.output:
            return f"{name}, committed"
        if lease.cancel_requested_at:
            return f"{name}, marked"
        return name if lease.attempt.task_arn else f"{name}, no task"
    return f"{name}, owing" if lease.owed else name


STATES = (
    "absent",
    "cancel mark",
    "RUNNING, no task",
    "RUNNING",
    "RUNNING, marked",
    "RUNNING, committed",
    "RELEASED",
    "SUCCEEDED, owing",
    "SUCCEEDED",
    "DEAD, owing",
    "DEAD",
    "CANCELLED, owing",
    "CANCELLED",
)
