"""How an attempt ended, and the row after it. Pure.

Precedence: a committed output in the row, the runner's recorded result, our own error, what the
engine says of the task. The row beats what Step Functions saw: an attempt that committed has
succeeded, whatever ended its task. A runner that was told to stop does not know why; when we
stopped it, our error says why.

Of a stage that a deploy took out of the settings, the queues are gone with all messages. What runs
is settled as far as a row goes. What waits for another attempt is over, because no message of it
comes.

A job on which our own code fails again and again must not circle unseen: it becomes a dead letter
of the class `internal_error`.
"""

import json
import random
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final, get_args

from longhaul.core import backoff
from longhaul.core.beat import report_overdue_s
from longhaul.core.durations import format_duration
from longhaul.core.engine import TINY, TINY_TIMEOUT_S, Engines, engine_for
from longhaul.core.lease import ExecutionInput, Lease, Owed, State, with_next
from longhaul.core.settings import LeaseSettings, RuntimeSettings, SizeName, Stage
from longhaul.core.verdict import (
    CLOSED,
    Evidence,
    OutcomeClass,
    StoppedTask,
    Verdict,
    says_passing,
    searchable,
    shorten,
)

# The account may not run one task of that size, however long it waits: new accounts start small.
_ABOVE_THE_LIMIT = re.compile(r"configuration is above your limit", re.IGNORECASE)
# Nor may the Region, or its platform. Source: the errors of RunTask (ECS API Reference).
_NOT_OFFERED = re.compile(r"UnsupportedFeature|PlatformTaskDefinitionIncompatibility")
# Step Functions' own word for a missing right, whatever the service.
_NOT_PERMITTED = "States.Permissions"
# The runner's word (`longhaul.runner.reporting.Phase`). Before this phase the runner registers,
# fetches inputs and boots Spark; after it, it publishes. A stall in those is not the job's.
_PHASE_OF_THE_JOB = "running"
# Also the runner's: the job has work, and the cluster no executor for it.
_PHASE_WITHOUT_EXECUTORS = "waiting"
# Every part is reported. A minute without one means a hanging call (the SDK's read timeout is
# 60 s).
_UNANSWERED = timedelta(minutes=1)
# Reports come every few seconds. A few minutes without any are no slow call.
_UNHEARD = timedelta(minutes=4)
_OWN_ERRORS = {
    "JobStalled": OutcomeClass.STALLED,
    "JobCancelled": OutcomeClass.CANCELLED,
    "LeaseLost": OutcomeClass.SUPERSEDED,
}


def classify(lease: Lease, evidence: Evidence, engines: Engines) -> Verdict:
    """How the attempt in `lease` ended."""
    task = _task_of(evidence, engines)
    stop = evidence.error in ("States.Timeout", CLOSED, *_OWN_ERRORS)
    attempt = lease.attempt
    if attempt.output is not None:
        return Verdict(OutcomeClass.SUCCEEDED, "output committed", stop_task=False)
    own = _OWN_ERRORS.get(evidence.error or "")
    result = attempt.result
    was_our_stop = own is not None or evidence.error == "States.Timeout"
    if (
        result is not None
        and result.attempt == attempt.number
        and not (was_our_stop and result.kind == OutcomeClass.INTERRUPTED)
    ):
        return Verdict(_class_of_kind(result.kind), result.error, stop)
    if own is OutcomeClass.STALLED and _fell_silent(lease):
        return Verdict(OutcomeClass.INTERRUPTED, evidence.cause, stop_task=True)
    if own is OutcomeClass.STALLED and not _is_at_work(lease):
        return _not_at_work(lease, evidence.cause or "the task never started", engines)
    if own is not None:
        return Verdict(
            own, evidence.cause or str(evidence.error), stop_task=own is not OutcomeClass.SUPERSEDED
        )
    if evidence.error == "States.Timeout":
        return _classify_timeout(lease, engines)
    if evidence.error is None:
        return Verdict(OutcomeClass.NO_OUTPUT, "the task exited with 0 and committed nothing")
    if task is None:
        words = searchable(f"{evidence.error}: {evidence.cause}")
        if not _is_refusal(evidence.error, engines):
            return Verdict(OutcomeClass.INTERRUPTED, words, stop)
        return _classify_refusal(lease, words)
    return engines.describing(task).classify(lease, task)


def _is_at_work(lease: Lease) -> bool:
    """Whether the runner was in the job's own code when it last reported."""
    attempt = lease.attempt
    return attempt.progress_at is not None and attempt.progress.get("phase") == _PHASE_OF_THE_JOB


def _fell_silent(lease: Lease) -> bool:
    """Whether the runner fell silent itself: cut off from the network, or hung as a whole.

    A job that makes no progress has a runner that goes on reporting just that. Versions that did
    not store the time of the report cannot tell the two apart.
    """
    attempt = lease.attempt
    if attempt.reported_at is None or attempt.progress_at is None:
        return False
    told_s = (attempt.reported_at - attempt.progress_at).total_seconds()
    return told_s < lease.stall_timeout_s - report_overdue_s(lease.stall_timeout_s)


def _not_at_work(lease: Lease, words: str, engines: Engines) -> Verdict:
    """A stall before the job's own code: AWS kept the attempt waiting.

    A job run without a sign of life waits in its application's queue, maybe behind one that is
    being cancelled. A driver without executors holds room that others need to get theirs: fewer
    jobs at once are the way out. A Fargate task is placed as soon as it is accepted, and hangs.
    """
    attempt = lease.attempt
    queued = (each.name for each in engines.all if each.queues)
    is_queued = attempt.progress_at is None and lease.input.engine in queued
    is_alone = attempt.progress.get("phase") == _PHASE_WITHOUT_EXECUTORS
    kind = OutcomeClass.NOT_PLACED if is_queued or is_alone else OutcomeClass.INTERRUPTED
    return Verdict(kind, words, stop_task=True)


def _is_refusal(error: str, engines: Engines) -> bool:
    """Whether a service did not start a task, or its answer was lost."""
    return error == _NOT_PERMITTED or any(
        error.startswith(each.errors) and error not in each.after_a_start for each in engines.all
    )


def _classify_refusal(lease: Lease, words: str) -> Verdict:
    """An attempt of whose task nothing is known.

    A service that refuses to start it says so in many ways (throttles also in disguise, as
    `InvalidParameterException … Rate exceeded`), and none of them is the job's fault. A task that
    has registered was started all the same, and only the answer was lost.

    Only what concerns the size alone is permanent. A missing right or subnet concerns each job of
    the stage: all wait until people have mended it, and then run. Rights and subnets that were just
    made are also refused at first.
    """
    if lease.attempt.task_arn is not None:
        return Verdict(OutcomeClass.INTERRUPTED, words, stop_task=True)
    advice = None
    if _ABOVE_THE_LIMIT.search(words):
        advice = "take a smaller size, or have the account's quota raised"
    elif _NOT_OFFERED.search(words):
        advice = "the Region has no such task, take another size"
    if advice is not None:
        return Verdict(OutcomeClass.PERMANENT, f"no other try will help: {advice} ({words})")
    if says_passing(words):
        return Verdict(OutcomeClass.NOT_PLACED, words)
    return Verdict(OutcomeClass.REFUSED, f"AWS refuses the task, not for lack of room ({words})")


def _classify_timeout(lease: Lease, engines: Engines) -> Verdict:
    limit = f"its timeout of {lease.input.timeout_s} s"
    attempt = lease.attempt
    if attempt.progress_at is None:
        return _not_at_work(lease, f"the task did not start within {limit}", engines)
    up_at = attempt.claimed_at + timedelta(seconds=lease.input.timeout_s)
    if attempt.reported_at is not None and up_at - attempt.reported_at >= _UNHEARD:
        words = f"cut off, or hung as a whole: its last report was long past when {limit} was up"
        return Verdict(OutcomeClass.INTERRUPTED, words, stop_task=True)
    silent = up_at - attempt.progress_at
    if not _is_at_work(lease) and silent >= _UNANSWERED:
        words = (
            "AWS kept the runner waiting: nothing had moved for "
            f"{round(silent.total_seconds())} s when {limit} was up"
        )
        return _not_at_work(lease, words, engines)
    return Verdict(OutcomeClass.TIMED_OUT, f"ran longer than {limit}", stop_task=True)


def with_task(lease: Lease, evidence: Evidence, engines: Engines) -> Lease:
    """The row with what the evidence says about its attempt's task.

    A task is paid for from the pull of its image to its stop; None where ECS gave no time. A task
    whose image was never pulled cost nothing. Its ARN is known also when it ended before it
    registered: its log says why. Source: https://aws.amazon.com/fargate/pricing/.
    """
    task = _task_of(evidence, engines) or {}
    begun = next((task[name] for name in ("PullStartedAt", "StartedAt") if task.get(name)), None)
    arn, registered = task.get("TaskArn"), lease.attempt.task_arn
    attempt = replace(
        lease.attempt,
        task_arn=registered or (arn if isinstance(arn, str) else None),
        is_over=registered is not None and engines.of(registered).is_over(registered, task),
        task_from=_time(begun),
        task_until=_time(task.get("StoppedAt")),
    )
    return replace(lease, attempt=attempt)


def _time(value: Any) -> datetime | None:  # noqa: ANN401 - from a task's description
    """A time of a task's description: epoch milliseconds."""
    return datetime.fromtimestamp(value / 1000, UTC) if isinstance(value, int | float) else None


def _task_of(evidence: Evidence, engines: Engines) -> dict[str, Any] | None:
    """The task or job run in the cause of `States.TaskFailed`; None when the cause is a text."""
    if evidence.task is not None:
        return evidence.task
    try:
        cause = json.loads(evidence.cause)
    except ValueError:
        return None
    if isinstance(cause, dict) and any(each.described_by in cause for each in engines.all):
        return cause
    return None


def _class_of_kind(kind: str) -> OutcomeClass:
    try:
        return OutcomeClass(kind)
    except ValueError:  # a newer runner's class, unknown to this version
        return OutcomeClass.FAILED


def dead(row: Lease) -> Lease:
    return replace(row, state=State.DEAD, owed=(Owed.DEAD_LETTER, Owed.DELETE))


def end_cancelled(lease: Lease, now: datetime) -> Lease:
    """The row of a job that ends, between attempts or with its attempt, because of a cancel."""
    return replace(
        lease,
        state=State.CANCELLED,
        owed=(Owed.DELETE,),
        last_class=OutcomeClass.CANCELLED.value,
        settled_at=now,
    )


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
        return dead(replace(row, settled_at=now))
    wait = timedelta(seconds=backoff.back_off_s(interruptions - 1, timing, rng))
    return replace(row, state=State.RELEASED, owed=(), retry_at=now + wait)


STAGE_REMOVED = "stage_removed"

_WHY = "its stage was removed with its queue, so it is not tried again"


def without_retry(verdict: Verdict) -> Verdict:
    """The verdict on an attempt of a removed stage: a failure is the last one."""
    if verdict.kind in (OutcomeClass.SUCCEEDED, OutcomeClass.CANCELLED):
        return verdict
    detail = f"{verdict.kind.value}: {verdict.detail}; {_WHY}"
    return Verdict(OutcomeClass.PERMANENT, detail, stop_task=verdict.stop_task)


def ended(lease: Lease, now: datetime) -> Lease:
    """The row of a released job of a removed stage: dead. There is no queue for a dead letter."""
    return replace(
        lease,
        state=State.DEAD,
        owed=(),
        settled_at=now,
        last_class=STAGE_REMOVED,
        last_error=f"{lease.last_error or 'it waited for its next attempt'}; {_WHY}",
    )


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


def why_stop(lease: Lease, evidence: Evidence, engines: Engines) -> OutcomeClass | None:
    """Why the attempt's task must be stopped before the attempt is settled; None: it has ended."""
    verdict = _verdict(lease, evidence, engines)
    return verdict.kind if verdict.stop_task else None


def decide_settle(
    lease: Lease,
    evidence: Evidence,
    stopped: StoppedTask | None,
    engines: Engines,
    settings: RuntimeSettings,
    now: datetime,
    rng: random.Random,
) -> Settlement:
    """How the attempt that owns `lease` ended, and the row after it.

    `stopped`: what the engine said of its task, if `why_stop` had it stopped.
    """
    verdict = _verdict(lease, evidence, engines)
    if stopped is not None:
        verdict = replace(verdict, gone_by=stopped.gone_by)
        if stopped.ended_as and verdict.kind in (OutcomeClass.STALLED, OutcomeClass.TIMED_OUT):
            # A task without progress had ended by itself, which Step Functions does not know yet.
            # Its own end says whose fault it was.
            evidence = stopped.ended_as
            verdict = _verdict(lease, evidence, engines)
    stage = settings.stage_or_removed(lease.stage)
    if stage.is_removed:
        verdict = without_retry(verdict)
    row = with_next(with_task(lease, evidence, engines), settings)
    settlement = after_verdict(row, verdict, stage, settings.lease, now, rng)
    if not settings.has_tiny:
        settlement = without_tiny(settlement)
    return replace(settlement, error=evidence.error)


def _verdict(lease: Lease, evidence: Evidence, engines: Engines) -> Verdict:
    verdict = classify(lease, evidence, engines)
    if verdict.kind is OutcomeClass.SUPERSEDED:
        # The attempt owns the lease, so a second task of it withdrew (RunTask's answer was lost).
        # Step Functions follows that one, so the first one's end would go unnoticed.
        return Verdict(
            OutcomeClass.INTERRUPTED, f"a second task withdrew: {verdict.detail}", stop_task=True
        )
    return verdict


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
        is_followed = stage.next or lease.leads_to or has_emitted or lease.has_joins
        follow_ons = (Owed.FOLLOW_ONS,) if is_followed and not lease.only else ()
        owed = (*publish, *follow_ons, Owed.DELETE)
        return Settlement(replace(row, state=State.SUCCEEDED, owed=owed, last_error=None), verdict)
    if verdict.kind is OutcomeClass.CANCELLED or lease.cancel_requested_at:
        return Settlement(end_cancelled(row, now), verdict)
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
        return execution.size == TINY and execution.timeout_s == TINY_TIMEOUT_S
    return verdict.kind is OutcomeClass.INTERRUPTED


def without_tiny(settlement: Settlement) -> Settlement:
    """The settlement in a stack whose size `tiny` a deploy has taken out: `small` goes on."""
    row = settlement.lease
    if row.state is not State.RELEASED or row.input.size != TINY:
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
    others = "" if execution.engine == "emr-serverless" else "use the engine emr-serverless, or "
    return f"{largest}; {others}split the inputs over several jobs"


def _next_size(execution: ExecutionInput, largest: SizeName) -> ExecutionInput:
    """The same input with the next larger size, up to `largest`.

    The size stays where it is already larger, after a deploy that allows less.
    """
    sizes: tuple[SizeName, ...] = get_args(SizeName)
    place = sizes.index(execution.size)
    larger = sizes[max(place, min(place + 1, sizes.index(largest)))]
    engine = engine_for(larger, execution.engine)
    return execution.model_copy(update={"size": larger, "engine": engine})


INTERNAL_ERROR: Final = "internal_error"

MAX_ERRORS: Final = 10
"""Errors in a row at one place of a job's life before it is given up.

The message comes every two minutes, the sweeper every five. So a bad deploy that is rolled back
within a quarter of an hour costs no job, and a poisoned one is seen within the hour.
"""

IN_A_ROW: Final = timedelta(hours=1)
"""An error this long after the one before begins a new row: in between it went well."""


def given_up(lease: Lease, error: Exception, now: datetime) -> Lease:
    """The row of a job on which our code keeps failing: dead, whatever it was.

    The error's name, not its text: that may quote data. The log has it.
    """
    what = {
        State.RUNNING: "its attempt could not be settled",
        State.RELEASED: "its next attempt could not be started",
    }.get(lease.state, f"after it had ended, this failed: {', '.join(lease.owed)}")
    return replace(
        dead(lease),
        settled_attempt=max(lease.settled_attempt, lease.attempt.number),
        settled_at=now,
        last_class=INTERNAL_ERROR,
        last_error=explained(error, what),
    )


def explained(error: Exception, what: str) -> str:
    """Why a job was given up, in a sentence for people."""
    return (
        f"{type(error).__name__}, {MAX_ERRORS} times in a row: {what}; "
        "the functions' logs have the error"
    )
