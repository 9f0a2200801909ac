"""What follows from how an attempt ended: the row after it. Pure."""

import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import get_args

from longhaul.domain import schedule
from longhaul.domain.durations import format_duration
from longhaul.domain.follow_ons import has_joins
from longhaul.domain.lease import ExecutionInput, Lease, Owed, State
from longhaul.domain.verdict import OutcomeClass, Verdict, shorten
from longhaul.engines.aws_lambda import meaning as aws_lambda
from longhaul.engines.listed import engine_for
from longhaul.settings import LeaseSettings, SizeName, Stage


@dataclass(frozen=True)
class Settlement:
    """The row after a settle.

    `retry_in_s`: seconds for which a released message stays invisible.
    """

    lease: Lease
    verdict: Verdict
    retry_in_s: int | None = None


def settle(
    lease: Lease,
    verdict: Verdict,
    stage: Stage,
    timing: LeaseSettings,
    now: datetime,
    rng: random.Random,
) -> Settlement:
    """The row after its attempt ended with `verdict`.

    Never with SUPERSEDED: an attempt that lost the lease writes nothing.
    """
    detail = shorten(verdict.detail)
    row = replace(
        lease,
        settled_attempt=lease.attempt.number,
        settled_at=now,
        last_class=verdict.kind.value,
        last_error=detail,
    )
    if verdict.kind is OutcomeClass.SUCCEEDED:
        publish = () if lease.attempt.published_at else (Owed.PUBLISH,)
        has_emitted = lease.attempt.output is not None and lease.attempt.output.emitted_ref
        # Where its stage leads nowhere any more, joins that wait for the job must still hear of it.
        is_followed = stage.next or lease.leads_to or has_emitted or has_joins(lease)
        follow_ons = (Owed.FOLLOW_ONS,) if is_followed else ()
        owed = (*publish, *follow_ons, Owed.DELETE)
        return Settlement(replace(row, state=State.SUCCEEDED, owed=owed, last_error=None), verdict)
    if verdict.kind is OutcomeClass.CANCELLED or lease.cancel_requested_at:
        return Settlement(
            replace(
                row,
                state=State.CANCELLED,
                owed=(Owed.DELETE,),
                last_class=OutcomeClass.CANCELLED.value,
            ),
            verdict,
        )
    if verdict.kind in (OutcomeClass.NOT_PLACED, OutcomeClass.REFUSED):
        return _not_placed(row, verdict, timing, now, rng)
    row = replace(row, unplaced_since=None)
    grown = _next_size(lease.input, stage.limits.max_size)
    if verdict.kind is OutcomeClass.OUT_OF_DISK and grown == lease.input:
        text = f"{_no_larger_disk(lease.input)} ({verdict.detail})"
        row = replace(row, failures=lease.failures + 1, last_error=shorten(text))
        return Settlement(_dead(row), verdict)
    if verdict.kind is OutcomeClass.INTERRUPTED:
        row = replace(row, interruptions=lease.interruptions + 1)
        hopeless = row.interruptions >= timing.max_interruptions
        tries = row.interruptions - 1  # a lost machine is replaced by another one at once
    elif verdict.kind is OutcomeClass.OUT_OF_DISK:
        # Not counted: the sizes come to an end, and the largest may be four attempts away.
        hopeless, tries = False, 1
    else:
        row = replace(row, failures=lease.failures + 1)
        hopeless = verdict.kind is OutcomeClass.PERMANENT or row.failures >= lease.max_attempts
        tries = row.failures
    if hopeless:
        return Settlement(_dead(row), verdict)
    if verdict.kind in (OutcomeClass.OUT_OF_MEMORY, OutcomeClass.OUT_OF_DISK):
        row = replace(row, execution_input=grown.model_dump_json())
    return _released(row, verdict, schedule.back_off_s(tries, timing, rng), timing, now)


def without_tiny(settlement: Settlement) -> Settlement:
    """The settlement in a stack whose size `tiny` a deploy has taken out: `small` goes on."""
    row = settlement.lease
    if row.state is not State.RELEASED or row.input.size != aws_lambda.SIZE:
        return settlement
    execution = _next_size(row.input, "small")
    row = replace(row, execution_input=execution.model_dump_json())
    return replace(settlement, lease=row)


def _not_placed(
    row: Lease, verdict: Verdict, timing: LeaseSettings, now: datetime, rng: random.Random
) -> Settlement:
    """Nothing is counted: only the time without a place ends the job.

    An attempt that lost its executors had a place until then.
    """
    since = row.attempt.worked_until or row.unplaced_since or row.attempt.claimed_at
    row = replace(row, unplaced_since=since)
    waited_s = (now - since).total_seconds()
    if waited_s >= timing.max_unplaced_s:
        text = f"not placed for {format_duration(waited_s)}, at last: {verdict.detail}"
        return Settlement(_dead(replace(row, last_error=shorten(text))), verdict)
    return _released(row, verdict, schedule.unplaced_wait_s(waited_s, timing, rng), timing, now)


def _dead(row: Lease) -> Lease:
    return replace(row, state=State.DEAD, owed=(Owed.DEAD_LETTER, Owed.DELETE))


def _released(
    row: Lease, verdict: Verdict, wait: int, timing: LeaseSettings, now: datetime
) -> Settlement:
    if verdict.stop_task:
        wait = max(wait, schedule.stop_clearance_s(timing))
    if verdict.gone_by:
        wait = max(wait, ceil((verdict.gone_by - now).total_seconds()))
    row = replace(row, state=State.RELEASED, retry_at=now + timedelta(seconds=wait))
    return Settlement(row, verdict, retry_in_s=wait)


def cancel_waiting(lease: Lease, now: datetime) -> Lease:
    """The row of a job that was cancelled between attempts."""
    return replace(
        lease,
        state=State.CANCELLED,
        owed=(Owed.DELETE,),
        last_class=OutcomeClass.CANCELLED.value,
        settled_at=now,
    )


def struck(lease: Lease, done: Owed, now: datetime) -> Lease:
    """The row without what is done; when that was the publish, with its time."""
    lease = replace(lease, owed=tuple(owed for owed in lease.owed if owed is not done))
    if done is Owed.PUBLISH:
        return replace(lease, attempt=replace(lease.attempt, published_at=now))
    return lease


def noted_gone(lease: Lease, now: datetime) -> Lease:
    """The row of a job whose committed uploads are neither pending nor completed."""
    return replace(lease, attempt=replace(lease.attempt, gone_at=now))


def noted_untold(lease: Lease, now: datetime) -> Lease:
    """The row of an ended job whose notice could not be sent."""
    return replace(lease, untold_at=now)


def reopened(lease: Lease, timing: LeaseSettings, now: datetime, rng: random.Random) -> Lease:
    """The row of a job whose committed output is void: it runs again, as after an interruption.

    It may be void each time, where others change the same table or move new objects away. A cancel
    that came after the commit holds now.
    """
    interruptions = lease.interruptions + 1
    row = replace(
        lease,
        attempt=replace(lease.attempt, output=None, result=None, gone_at=None),
        interruptions=interruptions,
        unplaced_since=None,  # the attempt had a place: a wait before it is over
        last_class=OutcomeClass.INTERRUPTED.value,
        last_error="the committed output was void",
        cancel_requested_at=lease.cancelled_at if lease.is_cancelled else None,
    )
    if interruptions >= timing.max_interruptions:
        # Its end is now, and not when it seemed to have succeeded: what was sent in between is
        # older than its death.
        return _dead(replace(row, settled_at=now))
    wait = timedelta(seconds=schedule.back_off_s(interruptions - 1, timing, rng))
    return replace(row, state=State.RELEASED, owed=(), retry_at=now + wait)


def _no_larger_disk(execution: ExecutionInput) -> str:
    largest = f"{execution.size} is the largest size that the stage allows"
    if execution.engine == "emr-serverless":
        return f"{largest}; split the inputs over several jobs"
    return f"{largest}; use the engine emr-serverless, or split the inputs over several jobs"


def _next_size(execution: ExecutionInput, largest: SizeName) -> ExecutionInput:
    """The same input with the next larger size, up to `largest`.

    The size stays where it is already larger, after a deploy that allows less.
    """
    sizes: tuple[SizeName, ...] = get_args(SizeName)
    place = sizes.index(execution.size)
    larger = sizes[max(place, min(place + 1, sizes.index(largest)))]
    engine = engine_for(larger, execution.engine)
    return execution.model_copy(update={"size": larger, "engine": engine})
