"""What a received message means for its job: decided from a row and a message. Pure.

`docs/internals/lease.md` has every case as a table, which the tests read.
"""

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from longhaul.core import beat
from longhaul.core.dead_letter import Reason
from longhaul.core.descent import Lineage, is_child_id
from longhaul.core.engine import TINY, TINY_TIMEOUT_S, engine_for
from longhaul.core.lease import (
    Attempt,
    DeadRun,
    ExecutionInput,
    Lease,
    Owed,
    Receive,
    State,
    request_ref,
)
from longhaul.core.message import Again, JobMessage
from longhaul.core.request import JobRequest
from longhaul.core.settings import LeaseSettings, Stage

KEPT_FOR_REDRIVE: Final = timedelta(days=14)
"""How long what a dead job has stored waits for a redrive."""

_STOPPING = timedelta(seconds=15)
"""How often a message that was sent after a cancel looks whether the cancelled run has ended.

Most end within seconds: the runner sees the mark at its next report.
"""

_MESSAGE_FIRST = timedelta(seconds=150)
"""After the back-off. In a queue without a backlog the message itself comes within seconds.

Also longer than the clocks of two functions differ: `retry_at` was written by another's, and the
stopped task of the last attempt may run until then.
"""

_DEAD_RUNS = 4
"""Works that died which a row remembers. People do not correct a job more often in two weeks."""

_MAX_TAG_VALUE: Final = 256
_NOT_IN_A_TAG: Final = re.compile(r"[^\w +=.:/@-]")


@dataclass(frozen=True)
class Claim:
    """Take the job and a slot, iff the row still is `replaces`: for a run, or its next attempt.

    The message may wait for a slot: `claimed` makes the row once there is one.
    """

    replaces: Lease | None
    starts_run: bool


@dataclass(frozen=True)
class Probe:
    """The row says RUNNING: start the same execution again, to see whether it is true."""

    lease: Lease


@dataclass(frozen=True)
class Finish:
    """Do what an ended job owes.

    Then delete the message if it is the job's `own`; else decide on it again.
    """

    lease: Lease
    own: bool


@dataclass(frozen=True)
class CancelWaiting:
    """The job was cancelled while its message waited: end it.

    Then delete the message if the cancel `covers` it; else decide on it again.
    """

    lease: Lease
    covers: bool


@dataclass(frozen=True)
class Cancelled:
    """A cancel covers this message, which is not the one of the row: delete it."""


@dataclass(frozen=True)
class Postpone:
    """Too early: the back-off has not passed, or a cancelled run has not ended."""

    until: datetime


@dataclass(frozen=True)
class Duplicate:
    """The same work was submitted or delivered again: delete this message."""


@dataclass(frozen=True)
class Conflict:
    """The key belongs to other work: dead-letter this message."""

    lease: Lease


Decision = Claim | Probe | Finish | CancelWaiting | Cancelled | Postpone | Duplicate | Conflict


def decide_claim(
    lease: Lease | None, message: JobMessage, timing: LeaseSettings, now: datetime
) -> Decision:
    """What a received message means for its job."""
    if lease is None:
        return Claim(None, starts_run=True)
    if lease.receive.is_of(message.chain):
        return _decide_own(lease, message, now)
    covered = lease.cancels(message.first_sent_at)
    if lease.state is State.RELEASED and lease.is_cancelled:
        if not covered and (until := _follow_on_first(lease, message, timing, now)):
            return Postpone(until)
        return CancelWaiting(lease, covers=covered)
    if covered:
        return Cancelled()
    if lease.is_cancel_open:
        return Postpone(now + _STOPPING)
    return _decide_other(lease, message, now)


def _decide_other(lease: Lease, message: JobMessage, now: datetime) -> Decision:
    """Of a message that is not the row's own, and which no cancel covers."""
    if message.again is not None:
        return _decide_again(lease, message, message.again)
    led_by = message.request.lineage
    # A row without a lineage came from a request by hand, which took the id before. What was
    # refused under the id may have been anybody's.
    if led_by and lease.lineage and not lease.is_refused:
        if led_by.run > lease.lineage.run:  # also a copy, which waited behind the earlier run
            return _decide_later(lease, message, now)
        if message.is_follow_on:
            # Sent twice, the second comes when its job has ended, or has been corrected, which
            # keeps the lineage.
            return Duplicate()
    if lease.was_over(message.first_sent_at):
        # The new run replaces the row, so what the old run owes is done first.
        return _begin_again(lease)
    fingerprint = message.request.fingerprint()
    if lease.has_outlived(fingerprint, message.first_sent_at):
        # Its run has a dead letter. The row may be of a correction since: no conflict with that.
        return Duplicate()
    if fingerprint != lease.fingerprint:
        return Conflict(lease)
    if lease.state is not State.RELEASED:
        return Duplicate()
    return _decide_retry(lease, now)


def _begin_again(old: Lease) -> Finish | Claim:
    """A new run replaces the row, so what the old run owes is done first."""
    return Finish(old, own=False) if old.owed else Claim(old, starts_run=True)


def _decide_again(lease: Lease, message: JobMessage, again: Again) -> Decision:
    """A request to run an ended job again starts one run, whatever the end was.

    Of two for the same run with different changes, one runs, and the other is a conflict.
    """
    if again.run >= lease.run and lease.state.is_terminal:
        return _begin_again(lease)
    fingerprint = message.request.fingerprint()
    # It may be one that has run, and died, before another change.
    has_run = fingerprint == lease.fingerprint or lease.has_outlived(
        fingerprint, message.first_sent_at
    )
    return Duplicate() if has_run or again.run >= lease.run else Conflict(lease)


def _decide_later(lease: Lease, message: JobMessage, now: datetime) -> Decision:
    """What a later run of its parent leads to runs in the place of what the earlier one led to.

    Behind a run that goes on it waits, and looks the more rarely the longer that takes.
    """
    if lease.state is State.RUNNING:
        return Postpone(now + max(_STOPPING, (now - message.first_sent_at) / 10))
    return _begin_again(lease)


def _follow_on_first(
    lease: Lease, message: JobMessage, timing: LeaseSettings, now: datetime
) -> datetime | None:
    """When to look again at a correction of a follow-on that was cancelled before it came.

    The follow-on brings the lineage, without which the correction would be no member. It is in its
    queue, and comes within the hour at most, unless somebody purged that.
    """
    is_childs = is_child_id(lease.job_id, lease.stage) and message.request.lineage is None
    if not (lease.is_mark and lease.lineage is None and is_childs):
        return None
    waited = now - message.first_sent_at
    if waited >= timedelta(seconds=timing.missing_after_s):
        return None
    return now + max(_STOPPING, waited / 10)


def _decide_own(lease: Lease, message: JobMessage, now: datetime) -> Decision:
    if lease.state.is_terminal:
        return Finish(lease, own=True)
    named_at = lease.receive.sent_at
    # A later message of the chain. Both times are SQS's own; a copy is sent hours after what it
    # renews.
    if named_at is not None and message.sent_at < named_at:
        return Duplicate()
    if lease.state is State.RUNNING:
        return Probe(lease)
    if lease.is_cancelled:
        return CancelWaiting(lease, covers=True)
    return _decide_retry(lease, now)


def _decide_retry(lease: Lease, now: datetime) -> Decision:
    if lease.retry_at and now < lease.retry_at:
        return Postpone(lease.retry_at)
    return Claim(lease, starts_run=False)


def may_claim_without_message(lease: Lease, now: datetime) -> bool:
    """Whether a released job's next attempt is due, and nothing speaks against it.

    Its message comes again among all others that wait, and SQS gives out none of them first. So
    where jobs wait for slots, a dispatcher claims the next attempt from the row alone.
    """
    if lease.state is not State.RELEASED or lease.is_mark or lease.is_cancelled:
        return False
    return lease.retry_at is not None and now >= lease.retry_at + _MESSAGE_FIRST


def claimed(
    claim: Claim, message: JobMessage, stage: Stage, timing: LeaseSettings, now: datetime
) -> Lease:
    """The row of the attempt that a claim begins now."""
    old = claim.replaces
    if old is None or claim.starts_run:
        return new_run(old, message, stage, timing, now)
    return next_attempt(old, message, timing, now)


def new_run(
    old: Lease | None, message: JobMessage, stage: Stage, timing: LeaseSettings, now: datetime
) -> Lease:
    """The row of a job's first attempt, or of the first attempt of a new run.

    A new run clears the counters and the cancel mark. The fencing token goes on, and an earlier
    cancel still covers what was sent before it.
    """
    run = max(int(now.timestamp() * 1000), old.run + 1 if old else 0)
    number = (old.attempt.number if old else 0) + 1
    request = message.request
    size, timeout_s = _size_and_timeout(request, stage)
    # A correction that is submitted by hand keeps the place of the job that died, also in its
    # group, and what people call it.
    label = request.label or (old.label if old else None)
    execution = ExecutionInput(
        key=message.key,
        stage=stage.name,
        job_id=message.key.partition("#")[2],
        run=run,
        attempt=number,
        engine=engine_for(size, request.engine or stage.engine),
        capacity="FARGATE_SPOT" if stage.spot else "FARGATE",
        job=request.job or stage.job,
        label=label,
        job_tag=tag_value(request.job or stage.job or ""),
        label_tag=tag_value(label or ""),
        size=size,
        timeout_s=timeout_s,
        first_wait_s=beat.interval_s(0, timing),
    )
    row = Lease(
        key=message.key,
        stage=stage.name,
        run=run,
        state=State.RUNNING,
        fingerprint=request.fingerprint(),
        request_ref=message.request_ref,
        execution_input=execution.model_dump_json(),
        max_attempts=request.max_attempts or stage.max_attempts,
        stall_timeout_s=request.stall_timeout or stage.stall_timeout_s,
        receive=first_receive(message),
        attempt=_started(number, message, execution, timing, now),
        label=label,
        tags=request.tags or (old.tags if old else {}),
        places=request.where_outputs_go,
        lineage=run_lineage(message, old),
        again=old is not None and (old.again or not old.is_mark),
        only=message.again is not None and message.again.only,
        settled_attempt=old.settled_attempt if old else 0,
        cancelled_at=old.cancelled_at if old else None,
        tree_cancelled_at=old.tree_cancelled_at if old else None,
        tree=old.tree if old else None,  # its ends are counted on
        dead_runs=_dead_runs(old) if old else (),
    )
    if old is None or request.afresh or not goes_on(old, row.fingerprint, now):
        return row
    # The attempt begins from what the job has stored before.
    return replace(
        row,
        saved_ref=old.saved_ref,
        saved_at=old.saved_at,
        saved_bytes=old.saved_bytes,
        attempt=replace(row.attempt, resumes=old.saved_ref),
    )


def run_lineage(message: JobMessage, old: Lease | None) -> Lineage | None:
    """Of a new run. A correction by hand has that of the job which it corrects."""
    return message.request.lineage or (old.lineage if old else None)


def _dead_runs(old: Lease) -> tuple[DeadRun, ...]:
    """The runs that died, the replaced one among them; of each work the latest.

    A cancelled run is not there: the time of its cancel says which messages are of it.
    """
    if old.state is not State.DEAD:
        return old.dead_runs
    if old.is_refused:  # no work died, and no message is left over from it
        return (*old.dead_runs, DeadRun("", old.ended_at))[-_DEAD_RUNS:]
    others = [each for each in old.dead_runs if each.fingerprint != old.fingerprint]
    return (*others, DeadRun(old.fingerprint, old.ended_at))[-_DEAD_RUNS:]


def tag_value(text: str) -> str:
    """The text as a value of AWS's tags: 256 characters, with `_` for each that is not allowed.

    Source: "Tag restrictions" (Amazon ECS Developer Guide).
    """
    value = _NOT_IN_A_TAG.sub("_", text)[:_MAX_TAG_VALUE]
    # What begins so is kept for AWS, in values too.
    return f"_{value[1:]}" if value.lower().startswith("aws:") else value


def _size_and_timeout(request: JobRequest, stage: Stage) -> tuple[str, int]:
    """The size and timeout of a run. A job that asks for longer than Lambda allows gets `small`."""
    size, timeout_s = request.size or stage.size, request.timeout or stage.timeout_s
    if size != TINY or timeout_s <= TINY_TIMEOUT_S:
        return size, timeout_s
    if request.timeout is None:  # no request asked for the stage's timeout
        return size, TINY_TIMEOUT_S
    return "small", timeout_s


def next_attempt(
    old: Lease, message: JobMessage | None, timing: LeaseSettings, now: datetime
) -> Lease:
    """The row of a released job's next attempt.

    What the request and the stage said at the first claim stays. Without a message in hand the row
    gets no receipt handle, as after a hand-over: the message is adopted when it comes.
    """
    changes: dict[str, Any] = {
        "attempt": old.attempt.number + 1,
        "first_wait_s": beat.interval_s(0, timing),
    }
    unplaced_since = _without_the_wait(old, now)
    without_spot_s = (now - (unplaced_since or now)).total_seconds()
    if old.interruptions >= timing.spot_interruptions or without_spot_s >= timing.start_timeout_s:
        changes["capacity"] = "FARGATE"
    execution = old.input.model_copy(update=changes)
    return replace(
        old,
        state=State.RUNNING,
        execution_input=execution.model_dump_json(),
        unplaced_since=unplaced_since,
        receive=_received(old.receive, message)
        if message
        else replace(old.receive, receipt_handle=None),
        attempt=replace(
            _started(execution.attempt, message, execution, timing, now), resumes=old.saved_ref
        ),
    )


def _without_the_wait(old: Lease, now: datetime) -> datetime | None:
    """`unplaced_since` of the next attempt of a released job.

    It moves on by the time since the back-off passed. In that time AWS was not asked: the stage was
    paused, or its slots were taken.
    """
    if old.unplaced_since is None:
        return None
    due_at = old.retry_at or old.ended_at
    return old.unplaced_since + max(now - due_at, timedelta(0))


def adopted(lease: Lease, message: JobMessage) -> Lease:
    """The row of a running job with a newer receive of its message, or with a copy's first."""
    return replace(lease, receive=_received(lease.receive, message))


def cancelled(lease: Lease, now: datetime) -> Lease:
    """The row after a cancel: it covers what was sent before, and marks what it can stop."""
    row = replace(lease, cancelled_at=max(now, lease.cancelled_at or now))
    if lease.state.is_terminal or lease.is_committed or lease.cancel_requested_at:
        return row
    return replace(row, cancel_requested_at=now)


def cancelled_before_claim(key: str, stage: str, now: datetime) -> Lease:
    """The row with the cancel mark of a job that has not been claimed yet.

    What was sent before is deleted when it comes.
    """
    row = _without_attempt(key, stage, State.RELEASED, Receive(message_id=""), now)
    return replace(row, cancel_requested_at=now, cancelled_at=now)


def refused(
    old: Lease | None,
    reason: Reason,
    key: str,
    stage: str,
    receive: Receive,
    request: JobRequest | None,
    now: datetime,
) -> Lease:
    """The row of a job whose message is refused: dead, before it had an attempt.

    Args:
        old: The row of an earlier refusal, which this one replaces.
        reason: Why it is refused.
        key: Of the job.
        stage: The stage of the job.
        receive: Of the message; one without an id of what was never sent.
        request: What the message asks for; None if it is no request.
        now: When it is refused.
    """
    row = _without_attempt(key, stage, State.DEAD, receive, now)
    row = replace(
        row,
        request_ref=request_ref(key, receive.message_id or "unsent"),
        owed=(Owed.DEAD_LETTER, Owed.DELETE),
        last_class=reason.kind,
        last_error=reason.reason,
        settled_at=now,
    )
    if old is not None:
        run, died = max(row.run, old.run + 1), _dead_runs(old)
        row = replace(row, run=run, cancelled_at=old.cancelled_at, dead_runs=died)
    if request is None:
        return row
    return replace(
        row,
        fingerprint=request.fingerprint(),
        label=request.label,
        tags=request.tags,
        lineage=request.lineage,
    )


def _without_attempt(key: str, stage: str, state: State, receive: Receive, now: datetime) -> Lease:
    return Lease(
        key=key,
        stage=stage,
        run=int(now.timestamp() * 1000),
        state=state,
        fingerprint="",
        request_ref="",
        execution_input="",
        max_attempts=1,
        stall_timeout_s=1,
        receive=receive,
        attempt=Attempt(number=0, claimed_at=now),
    )


def first_receive(message: JobMessage) -> Receive:
    """The receive of a message with which a row begins."""
    before = Receive(message.message_id, first_sent_at=message.first_sent_at, sender=message.sender)
    return _received(before, message)


def _received(before: Receive, message: JobMessage) -> Receive:
    """The row's receive after this one of its message, or of one that takes over.

    A batch may be delivered long after it was received, when the row knows a later receive.
    """
    if message.message_id == before.message_id and message.receive_count < before.receive_count:
        return before
    return replace(
        before,
        message_id=message.message_id,
        renews=message.renews,
        receipt_handle=message.receipt_handle,
        receive_count=message.receive_count,
        received_at=message.received_at,
        sent_at=message.sent_at,
    )


def _started(
    number: int,
    message: JobMessage | None,
    execution: ExecutionInput,
    timing: LeaseSettings,
    now: datetime,
) -> Attempt:
    held_s = (now - message.received_at).total_seconds() if message else 0.0
    visibility_s = beat.visibility_s(execution.first_wait_s, held_s, timing)
    return Attempt(
        number=number, claimed_at=now, lease_expires_at=now + timedelta(seconds=visibility_s)
    )


def goes_on(old: Lease, fingerprint: str, now: datetime) -> bool:
    """Whether a new run, for work of that fingerprint, uses what the job's last run has stored."""
    return (
        old.saved_ref is not None
        and old.state is State.DEAD
        and old.fingerprint == fingerprint
        and now - old.ended_at < KEPT_FOR_REDRIVE
    )
