"""How an attempt ended. Pure; what follows is in `domain.settlement`.

Precedence: a committed output in the row, the runner's recorded result, our own error, what the
engine says of the task. The row beats what Step Functions saw: an attempt that committed has
succeeded, whatever ended its task. A runner that was told to stop does not know why; when we
stopped it, our error says why.
"""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from longhaul.domain.beat import report_overdue_s
from longhaul.domain.lease import Lease
from longhaul.domain.verdict import (
    CLOSED,
    Evidence,
    OutcomeClass,
    Verdict,
    says_passing,
    searchable,
)
from longhaul.engines.listed import ENGINES, engine_describing, engine_of

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


def classify(lease: Lease, evidence: Evidence) -> Verdict:
    """How the attempt in `lease` ended."""
    task = _task_of(evidence)
    stop = evidence.error in ("States.Timeout", CLOSED, *_OWN_ERRORS)
    attempt = lease.attempt
    if attempt.output is not None:
        return Verdict(OutcomeClass.SUCCEEDED, "output committed", stop_task=False)
    own = _OWN_ERRORS.get(evidence.error or "")
    result = attempt.result
    if result is not None and result.attempt != attempt.number:
        result = None
    was_our_stop = own is not None or evidence.error == "States.Timeout"
    if result is not None and not (was_our_stop and result.kind == OutcomeClass.INTERRUPTED):
        return Verdict(_class_of_kind(result.kind), result.error, stop)
    if own is OutcomeClass.STALLED and _is_cut_off(lease):
        return Verdict(OutcomeClass.INTERRUPTED, evidence.cause, stop_task=True)
    if own is OutcomeClass.STALLED and not _is_at_work(lease):
        return _not_at_work(lease, evidence.cause or "the task never started")
    if own is not None:
        return Verdict(
            own, evidence.cause or str(evidence.error), stop_task=own is not OutcomeClass.SUPERSEDED
        )
    if evidence.error == "States.Timeout":
        return _classify_timeout(lease)
    if evidence.error is None:
        return Verdict(OutcomeClass.NO_OUTPUT, "the task exited with 0 and committed nothing")
    if task is None:
        words = searchable(f"{evidence.error}: {evidence.cause}")
        if not _is_refusal(evidence.error):
            return Verdict(OutcomeClass.INTERRUPTED, words, stop)
        return _classify_refusal(lease, words)
    return engine_describing(task).classify(lease, task)


def _is_at_work(lease: Lease) -> bool:
    """Whether the runner was in the job's own code when it last reported."""
    attempt = lease.attempt
    return attempt.progress_at is not None and attempt.progress.get("phase") == _PHASE_OF_THE_JOB


def _is_cut_off(lease: Lease) -> bool:
    """Whether the runner fell silent itself: cut off from the network, or hung as a whole.

    A job that makes no progress has a runner that goes on reporting just that. Versions that did
    not store the time of the report cannot tell the two apart.
    """
    attempt = lease.attempt
    if attempt.reported_at is None or attempt.progress_at is None:
        return False
    told_s = (attempt.reported_at - attempt.progress_at).total_seconds()
    return told_s < lease.stall_timeout_s - report_overdue_s(lease.stall_timeout_s)


def _not_at_work(lease: Lease, words: str) -> Verdict:
    """A stall before the job's own code: AWS kept the attempt waiting.

    A job run without a sign of life waits in its application's queue, maybe behind one that is
    being cancelled. A driver without executors holds room that others need to get theirs: fewer
    jobs at once are the way out. A Fargate task is placed as soon as it is accepted, and hangs.
    """
    attempt = lease.attempt
    queued = (each.name for each in ENGINES if each.queues)
    is_queued = attempt.progress_at is None and lease.input.engine in queued
    is_alone = attempt.progress.get("phase") == _PHASE_WITHOUT_EXECUTORS
    kind = OutcomeClass.NOT_PLACED if is_queued or is_alone else OutcomeClass.INTERRUPTED
    return Verdict(kind, words, stop_task=True)


def _is_refusal(error: str) -> bool:
    """Whether a service did not start a task, or its answer was lost."""
    return error == _NOT_PERMITTED or any(
        error.startswith(each.errors) and error not in each.after_a_start for each in ENGINES
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
    if _ABOVE_THE_LIMIT.search(words):
        advice = "no other try will help: take a smaller size, or have the account's quota raised"
        return Verdict(OutcomeClass.PERMANENT, f"{advice} ({words})")
    if _NOT_OFFERED.search(words):
        advice = "no other try will help: the Region has no such task, take another size"
        return Verdict(OutcomeClass.PERMANENT, f"{advice} ({words})")
    if says_passing(words):
        return Verdict(OutcomeClass.NOT_PLACED, words)
    return Verdict(OutcomeClass.REFUSED, f"AWS refuses the task, not for lack of room ({words})")


def _classify_timeout(lease: Lease) -> Verdict:
    limit = f"its timeout of {lease.input.timeout_s} s"
    attempt = lease.attempt
    if attempt.progress_at is None:
        return _not_at_work(lease, f"the task did not start within {limit}")
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
        return _not_at_work(lease, words)
    return Verdict(OutcomeClass.TIMED_OUT, f"ran longer than {limit}", stop_task=True)


def with_task(lease: Lease, evidence: Evidence) -> Lease:
    """The row with what the evidence says about its attempt's task.

    A task is paid for from the pull of its image to its stop; None where ECS gave no time. A task
    whose image was never pulled cost nothing. Its ARN is known also when it ended before it
    registered: its log says why. Source: https://aws.amazon.com/fargate/pricing/.
    """
    task = _task_of(evidence) or {}
    begun = next((task[name] for name in ("PullStartedAt", "StartedAt") if task.get(name)), None)
    arn, registered = task.get("TaskArn"), lease.attempt.task_arn
    attempt = replace(
        lease.attempt,
        task_arn=registered or (arn if isinstance(arn, str) else None),
        is_over=registered is not None and engine_of(registered).is_over(registered, task),
        task_from=_time(begun),
        task_until=_time(task.get("StoppedAt")),
    )
    return replace(lease, attempt=attempt)


def _time(value: Any) -> datetime | None:  # noqa: ANN401 - from a task's description
    """A time of a task's description: epoch milliseconds."""
    return datetime.fromtimestamp(value / 1000, UTC) if isinstance(value, int | float) else None


def _task_of(evidence: Evidence) -> dict[str, Any] | None:
    """The task or job run in the cause of `States.TaskFailed`; None when the cause is a text."""
    if evidence.task is not None:
        return evidence.task
    try:
        cause = json.loads(evidence.cause)
    except ValueError:
        return None
    if isinstance(cause, dict) and any(each.described_by in cause for each in ENGINES):
        return cause
    return None


def _class_of_kind(kind: str) -> OutcomeClass:
    try:
        return OutcomeClass(kind)
    except ValueError:  # a newer runner's class, unknown to this version
        return OutcomeClass.FAILED
