"""How an attempt is settled: the row after it, and what follows. Pure."""

import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Final, get_args

from longhaul.domain import backoff
from longhaul.domain.classify import classify, with_task
from longhaul.domain.durations import format_duration
from longhaul.domain.follow_ons import has_joins, with_next
from longhaul.domain.lease import ExecutionInput, Lease, Owed, State
from longhaul.domain.outcome import dead
from longhaul.domain.removed_stage import without_retry
from longhaul.domain.verdict import Evidence, OutcomeClass, StoppedTask, Verdict, shorten
from longhaul.engines.aws_lambda import ends as aws_lambda
from longhaul.engines.listed import engine_for
from longhaul.settings import LeaseSettings, RuntimeSettings, SizeName, Stage

MAX_RESUMPTIONS: Final = 100
"""Interruptions of attempts that had stored something new which do not count as interruptions.

A job that stores what is no progress, again and again, comes to an end.
"""


@dataclass(frozen=True)
class Settlement:
    """The row after a settle, and why.

    `retry_in_s`: seconds for which a released message stays invisible. `error`: the name of the
    error that ended the attempt.
    """

    lease: Lease
    verdict: Verdict
    retry_in_s: int | None = None
    error: str | None = None


def why_stop(lease: Lease, evidence: Evidence) -> OutcomeClass | None:
    """Why the attempt's task must be stopped before the attempt is settled; None: it has ended."""
    verdict = _verdict(lease, evidence)
    return verdict.kind if verdict.stop_task else None


def decide_settle(
    lease: Lease,
    evidence: Evidence,
    stopped: StoppedTask | None,
    settings: RuntimeSettings,
    now: datetime,
    rng: random.Random,
) -> Settlement:
    """How the attempt that owns `lease` ended, and the row after it.

    `stopped`: what the engine said of its task, if `why_stop` had it stopped.
    """
    verdict = _verdict(lease, evidence)
    if stopped is not None and (ended := _own_end(verdict, stopped)):
        verdict, evidence = _verdict(lease, ended), ended
    elif stopped is not None:
        verdict = replace(verdict, gone_by=stopped.gone_by)
    stage = settings.stage_or_removed(lease.stage)
    if stage.is_removed:
        verdict = without_retry(verdict)
    row = with_next(with_task(lease, evidence), settings)
    settlement = after_verdict(row, verdict, stage, settings.lease, now, rng)
    if not settings.has_tiny:
        settlement = without_tiny(settlement)
    return replace(settlement, error=evidence.error)


def _verdict(lease: Lease, evidence: Evidence) -> Verdict:
    verdict = classify(lease, evidence)
    if verdict.kind is OutcomeClass.SUPERSEDED:
        # The attempt owns the lease, so a second task of it withdrew (RunTask's answer was lost).
        # Step Functions follows that one, so the first one's end would go unnoticed.
        return Verdict(
            OutcomeClass.INTERRUPTED, f"a second task withdrew: {verdict.detail}", stop_task=True
        )
    return verdict


def _own_end(verdict: Verdict, stopped: StoppedTask) -> Evidence | None:
    """How a task without progress had ended by itself, which Step Functions does not know yet.

    Its own end says whose fault it was.
    """
    is_silent = verdict.kind in (OutcomeClass.STALLED, OutcomeClass.TIMED_OUT)
    return stopped.ended_as if is_silent else None


def after_verdict(
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
        has_emitted = lease.attempt.output is not None and lease.attempt.output.emitted is not None
        # Where its stage leads nowhere any more, joins that wait for the job must still hear of it.
        is_followed = stage.next or lease.leads_to or has_emitted or has_joins(lease)
        follow_ons = (Owed.FOLLOW_ONS,) if is_followed and not lease.only else ()
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
    if _is_cut_off(lease, verdict) and lease.has_saved and lease.resumptions < MAX_RESUMPTIONS:
        # The next attempt goes on from what it has stored: nothing is counted against the job.
        row = replace(row, resumptions=lease.resumptions + 1)
        return _released(row, verdict, backoff.back_off_s(0, timing, rng), timing, now)
    grown = _next_size(lease.input, stage.limits.max_size)
    if verdict.kind is OutcomeClass.OUT_OF_DISK and grown == lease.input:
        text = f"{_no_larger_disk(lease.input)} ({verdict.detail})"
        row = replace(row, failures=lease.failures + 1, last_error=shorten(text))
        return Settlement(dead(row), verdict)
    if verdict.kind is OutcomeClass.INTERRUPTED:
        row = replace(row, interruptions=lease.interruptions + 1)
        hopeless = row.interruptions >= timing.max_interruptions
        tries = row.interruptions - 1  # a lost machine is replaced by another one at once
    elif verdict.kind is OutcomeClass.OUT_OF_DISK:
        # Not counted: the sizes come to an end, and the largest may be four attempts away.
        hopeless, tries = False, 1
    else:
        row = replace(row, failures=lease.failures + 1)
        is_last = row.failures >= lease.max_attempts
        hopeless = verdict.kind is OutcomeClass.PERMANENT or is_last
        tries = row.failures
    if hopeless:
        return Settlement(dead(row), verdict)
    if verdict.kind in (OutcomeClass.OUT_OF_MEMORY, OutcomeClass.OUT_OF_DISK):
        row = replace(row, execution_input=grown.model_dump_json())
    return _released(row, verdict, backoff.back_off_s(tries, timing, rng), timing, now)


def _is_cut_off(lease: Lease, verdict: Verdict) -> bool:
    """Whether the platform ended the attempt, by no fault of the job's.

    A tiny job that comes to the end of the longest invocation is one that needs several of them.
    """
    if verdict.kind is OutcomeClass.TIMED_OUT:
        execution = lease.input
        is_tiny = execution.size == aws_lambda.SIZE
        return is_tiny and execution.timeout_s == aws_lambda.MAX_TIMEOUT_S
    return verdict.kind is OutcomeClass.INTERRUPTED


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
        return Settlement(dead(replace(row, last_error=shorten(text))), verdict)
    return _released(row, verdict, backoff.unplaced_wait_s(waited_s, timing, rng), timing, now)


def _released(
    row: Lease, verdict: Verdict, wait: int, timing: LeaseSettings, now: datetime
) -> Settlement:
    if verdict.stop_task:
        wait = max(wait, backoff.stop_clearance_s(timing))
    if verdict.gone_by:
        wait = max(wait, ceil((verdict.gone_by - now).total_seconds()))
    row = replace(row, state=State.RELEASED, retry_at=now + timedelta(seconds=wait))
    return Settlement(row, verdict, retry_in_s=wait)


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
