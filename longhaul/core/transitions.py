"""The transitions of a row, as values: each is one conditional write. Pure.

`docs/internals/lease.md` has the protocol as tables. What decides on a transition is in
`core.claim`, `core.beat` and `core.settlement`.

time ───────────────────────────────────────────────────────────────────────────────►
attempt 1   claim ── register ── progress ──x (stalls; settled; released)
attempt 2                                     claim ── register ── commit ── settle
attempt 1                                       progress ✗ MINE: the attempt moved on
attempt 1                                           commit ✗ MINE
settle of attempt 1, late or repeated                 settle ✗ MINE: the row says settled
second task of attempt 2 (RunTask's answer was lost)         register ✗ FIRST_TASK
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from longhaul.core.beat import beaten
from longhaul.core.claim import adopted
from longhaul.core.descent import TreeWatch, begun
from longhaul.core.history import AttemptRecord, ended, latest
from longhaul.core.lease import (
    AttemptId,
    CommittedOutput,
    Lease,
    Owed,
    RecordedResult,
)
from longhaul.core.message import JobMessage
from longhaul.core.pace import Pace
from longhaul.core.settings import Stage


class Clause(StrEnum):
    """What a transition requires of the row, each with what it keeps out."""

    ABSENT = "absent"  # a job that was claimed or marked meanwhile
    RUNNING = "running"  # a settled attempt writes nothing
    SAME_STATE = "same state"  # a row that was claimed or settled meanwhile
    MINE = "mine"  # an older attempt or run writes nothing
    # A RunTask whose answer was lost cannot make two tasks work.
    FIRST_TASK = "first task"
    UNCOMMITTED = "uncommitted"  # one commit per run; a failure never overrules it
    UNPUBLISHED = "unpublished"  # a published output is not void
    SAME_LOOK = "same look"  # of two looks one is noted, and completes the uploads
    NOT_CANCELLED = "not cancelled"  # no commit outruns the mark
    # A claim does not erase a cancel that covers its message.
    SAME_CANCEL = "same cancel"
    NEWER_RECEIVE = "newer receive"  # of two adoptions the newer receive stays
    SAME_HANDLE = "same handle"  # a newer receive's handle is never cleared
    SAME_MESSAGE = "same message"  # a copy that another copy has replaced
    SAME_SEEN = "same seen"  # of two that miss a message one sends its copy
    # What is stored on top of other things than it knew of would drop them.
    SAME_SAVED = "same saved"
    # An end that came since the watch was read is not taken for told.
    SAME_TREE = "same tree"
    SAME_OWED = "same owed"  # what another finisher has struck off is not owed again


Requires = Mapping[Clause, Any]
"""Clauses that must hold, each with the value that it compares, or None.

None: it compares none; or, of one that says "same", the row has no such value yet.
"""

IsOwn = Callable[[Lease], bool]
"""Whether this very write made the row: the SDK repeats a write whose answer was lost."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A row that was read, and what it becomes.

    Only what differs is written, so a mark or a progress report that was written meanwhile stays;
    `is_whole`: the whole row is written. In the same transaction: `takes_slot` of a stage, with the
    stage's pace after it; `gives_slot_back`; a `record` of how an attempt ended.
    """

    before: Lease | None
    after: Lease
    requires: Requires
    is_own: IsOwn = lambda _: False
    is_whole: bool = False
    takes_slot: tuple[Stage, Pace | None] | None = None
    gives_slot_back: bool = False
    record: AttemptRecord | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """Fields that the attempt which owns the lease sets, whatever else is in its row.

    Its clauses come on top of RUNNING and MINE. `clears` and `counts` are names of fields: one is
    emptied, to the other one is added.
    """

    attempt: AttemptId
    sets: Mapping[str, Any]
    clears: str | None = None
    counts: str | None = None
    also: Requires
    is_own: IsOwn = lambda _: False

    @property
    def requires(self) -> Requires:
        return {Clause.RUNNING: None, Clause.MINE: self.attempt, **self.also}


def claim(before: Lease | None, after: Lease, stage: Stage, pace: Pace | None = None) -> Change:
    """Take the job and a slot, and note the stage's pace after it."""
    return Change(
        before=before,
        after=after,
        requires=_untouched(before),
        is_own=lambda row: row == after,
        is_whole=True,
        takes_slot=(stage, pace),
    )


def adopt(lease: Lease, message: JobMessage) -> Report:
    """Store a newer receive of the row's message, or of the copy that renews it."""
    before, after = lease.receive, adopted(lease, message).receive
    sets = {
        "receipt_handle": after.receipt_handle,
        "receive_count": after.receive_count,
        "received_at": after.received_at,
        "sent_at": after.sent_at,
    }
    also: dict[Clause, Any] = {Clause.SAME_MESSAGE: before.message_id}
    if after.message_id == before.message_id:
        also[Clause.NEWER_RECEIVE] = message.receive_count
    else:
        sets["message_id"] = after.message_id
        if after.renews:
            sets["renews"] = after.renews
    return Report(
        attempt=lease.id,
        sets=sets,
        counts="adoptions",
        also=also,
        is_own=lambda row: (
            row.id == lease.id
            and row.receive.receipt_handle == after.receipt_handle
            and row.receive.receive_count == after.receive_count
            and row.receive.message_id == after.message_id
        ),
    )


def beat(lease: Lease, now: datetime, lease_expires_at: datetime) -> Report:
    """A beat of the row's attempt."""
    after = beaten(lease, now, lease_expires_at).attempt
    sets = {
        "lease_expires_at": after.lease_expires_at,
        "beats": after.beats,
        "beat_ages_s": after.beat_ages_s,
    }
    return Report(attempt=lease.id, sets=sets, also={})


def hand_over(attempt: AttemptId, receipt_handle: str) -> Report:
    """Clear the handle, if it is still that one."""
    return Report(
        attempt=attempt,
        sets={},
        clears="receipt_handle",
        counts="hand_overs",
        also={Clause.SAME_HANDLE: receipt_handle},
        is_own=lambda row: row.owns(attempt) and row.receive.receipt_handle is None,
    )


def register_task(attempt: AttemptId, task_arn: str, now: datetime) -> Report:
    """The runner's first write."""
    sets = {"task_arn": task_arn, "started_at": now, "progress_at": now, "reported_at": now}
    return Report(attempt=attempt, sets=sets, also={Clause.FIRST_TASK: task_arn})


def report_progress(
    attempt: AttemptId,
    progress: Mapping[str, Any],
    progress_at: datetime,
    reported_at: datetime | None = None,
) -> Report:
    """Store the runner's progress. The row that is written shows a cancel mark.

    `progress_at`: when the work last advanced. `reported_at`: the time of this report, unless it is
    the same.
    """
    sets = {
        "progress": dict(progress),
        "progress_at": progress_at,
        "reported_at": reported_at or progress_at,
    }
    return Report(attempt=attempt, sets=sets, also={})


def record_result(attempt: AttemptId, result: RecordedResult) -> Report:
    """Store the runner's failure."""
    return Report(attempt=attempt, sets={"result": result}, also={Clause.UNCOMMITTED: None})


def save(attempt: AttemptId, known: str | None, ref: str, size_bytes: int, now: datetime) -> Report:
    """Make a record the one that counts, in the place of the one that the attempt knows.

    Its objects are there by then. `size_bytes` is what the record names.
    """
    return Report(
        attempt=attempt,
        sets={"saved_ref": ref, "saved_at": now, "saved_bytes": size_bytes},
        also={Clause.UNCOMMITTED: None, Clause.NOT_CANCELLED: None, Clause.SAME_SAVED: known},
        is_own=lambda row: row.owns(attempt) and row.saved_ref == ref,
    )


def commit(attempt: AttemptId, output: CommittedOutput) -> Report:
    """Make the pending uploads the job's output."""
    return Report(
        attempt=attempt,
        sets={"output": output},
        also={Clause.UNCOMMITTED: None, Clause.NOT_CANCELLED: None},
        is_own=lambda row: row.id == attempt and row.attempt.output == output,
    )


def mark_published(attempt: AttemptId, now: datetime) -> Report:
    """Note that the committed output is visible. After a settle, `strike` notes it."""
    return Report(attempt=attempt, sets={"published_at": now}, also={})


def settle(before: Lease, after: Lease) -> Change:
    """End the attempt, give its slot back, and keep its record."""
    requires: dict[Clause, Any] = {Clause.RUNNING: None, Clause.MINE: before.id}
    if before.attempt.output is None:
        requires[Clause.UNCOMMITTED] = None
    return Change(
        before=before,
        after=after,
        requires=requires,
        gives_slot_back=True,
        record=ended(before, after),
    )


def end_waiting(before: Lease, after: Lease) -> Change:
    """End a job without an attempt.

    A released one; or one that has ended, and what it owes is given up.
    """
    owed = {Clause.SAME_OWED: before.owed} if before.owed else {}
    return Change(
        before=before,
        after=after,
        requires=_same(before) | owed,
        is_own=lambda row: (
            row.id == after.id and row.state is after.state and row.owed == after.owed
        ),
    )


def strike(
    lease: Lease, done: Owed, now: datetime, *, cut_off: bool = False, watches_tree: bool = False
) -> Change:
    """Strike off what was owed; repeatable. When that was the publish, its time is noted.

    `cut_off`: nothing follows, because of a cancel. `watches_tree`: its tree may have ended.
    """
    published_at = now if done is Owed.PUBLISH else lease.attempt.published_at
    after = replace(
        lease,
        owed=tuple(owed for owed in lease.owed if owed is not done),
        attempt=replace(lease.attempt, published_at=published_at),
        cut_off=lease.cut_off or cut_off,
        tree=begun(lease.tree) if watches_tree else lease.tree,
    )
    return Change(
        before=lease,
        after=after,
        requires=_same(lease) | {Clause.SAME_OWED: lease.owed},
        is_own=lambda row: row.id == lease.id and row.state is lease.state and done not in row.owed,
    )


def note_gone(lease: Lease, now: datetime) -> Change:
    """Note that uploads of the committed output were looked for, and were gone."""
    look = {Clause.SAME_LOOK: lease.attempt.gone_at}
    return Change(
        before=lease,
        after=replace(lease, attempt=replace(lease.attempt, gone_at=now)),
        requires=_same(lease) | {Clause.UNPUBLISHED: None} | look,
        is_own=lambda row: row.id == lease.id and row.attempt.gone_at == now,
    )


def watch(root: Lease, tree: TreeWatch) -> Change:
    """Change what the row of a root that has ended knows of its tree."""
    return Change(
        before=root,
        after=replace(root, tree=tree),
        requires=_same(root) | {Clause.SAME_TREE: root.tree},
        is_own=lambda row: row.id == root.id and row.tree == tree,
    )


def reopen(lease: Lease, after: Lease) -> Change:
    """The row after its commit was void."""
    return Change(
        before=lease,
        after=after,
        requires=_same(lease) | {Clause.UNPUBLISHED: None},
        is_own=lambda row: (
            row.id == after.id
            and row.state is after.state
            and row.attempt.output == after.attempt.output
            and row.retry_at == after.retry_at
        ),
        record=latest(after),
    )


def refuse(before: Lease | None, after: Lease) -> Change:
    """Note a job that is dead because its message was refused; any other row stays as it is."""
    return Change(
        before=before,
        after=after,
        requires={Clause.ABSENT: None}
        if before is None
        else _same(before) | {Clause.SAME_CANCEL: before.cancelled_at},
        is_own=lambda row: row == after,
        is_whole=True,
    )


def mark_before_claim(after: Lease) -> Change:
    """Leave a cancel mark for the claim of a job to find."""
    return Change(before=None, after=after, requires={Clause.ABSENT: None}, is_whole=True)


def cancel(before: Lease, after: Lease) -> Change:
    """Cancel what was sent up to now. A write that the SDK repeats does not undo a later cancel.

    A job whose output is committed gets no mark: nothing stops it.
    """
    uncommitted = {} if before.attempt.output else {Clause.UNCOMMITTED: None}
    return Change(
        before=before,
        after=after,
        requires=_untouched(before) | uncommitted,
        is_own=lambda row: row.cancelled_at == after.cancelled_at,
    )


def cancel_tree(before: Lease, now: datetime) -> Change:
    """Cancel what was sent of the tree of a root up to now."""
    return Change(
        before=before,
        after=replace(before, tree_cancelled_at=now),
        requires=_same(before),
        is_own=lambda row: row.tree_cancelled_at == now,
    )


def note_seen(lease: Lease, now: datetime) -> Change:
    """Note that a released job's message was received, or that a copy was sent."""
    after = replace(lease, receive=replace(lease.receive, seen_at=now))
    return Change(
        before=lease,
        after=after,
        requires=_same(lease) | {Clause.SAME_SEEN: lease.receive.seen_at},
        is_own=lambda row: (
            row.id == lease.id
            and row.state is lease.state
            and row.receive.seen_at == after.receive.seen_at
        ),
    )


def _same(before: Lease) -> dict[Clause, Any]:
    """The row is in the same state, of the same attempt."""
    return {Clause.SAME_STATE: before.state, Clause.MINE: before.id}


def _untouched(before: Lease | None) -> dict[Clause, Any]:
    """The same, and no cancel came since the row was read; or there is still no row."""
    if before is None:
        return {Clause.ABSENT: None}
    return _same(before) | {Clause.SAME_CANCEL: before.cancelled_at}
