"""How an attempt ended, by its row and by what Step Functions and the engine say."""

import json
from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest

from longhaul.core.lease import Lease, RecordedResult
from longhaul.core.settlement import classify
from longhaul.core.verdict import Evidence, OutcomeClass
from longhaul.engines.fargate.tasks import _evidence_of
from longhaul.runner.reporting import Phase
from tests.builders import NOW, OUTPUT, changed, running

STARTED = changed(running(), progress_at=NOW, task_arn="arn:task")
AT_WORK = changed(STARTED, progress={"phase": Phase.RUNNING.value})
PUBLISHING = changed(STARTED, progress={"phase": Phase.PUBLISHING.value})
INTERRUPTED = changed(AT_WORK, result=RecordedResult(1, "interrupted", "asked to stop (SIGTERM)"))
TIMES_OUT_AT = STARTED.attempt.claimed_at + timedelta(seconds=STARTED.input.timeout_s)


def task(
    exit_code: int | None,
    reason: str = "",
    stop_code: str = "EssentialContainerExited",
    stopped: str = "",
) -> Evidence:
    container: dict[str, Any] = {"Name": "job", "Reason": reason}
    if exit_code is not None:
        container["ExitCode"] = exit_code
    cause = {
        "TaskArn": "arn:task",
        "Containers": [container],
        "StopCode": stop_code,
        "StoppedReason": stopped,
    }
    return Evidence("States.TaskFailed", json.dumps(cause))


CASES = {
    "committed-then-killed": (changed(STARTED, output=OUTPUT), task(137), OutcomeClass.SUCCEEDED),
    "committed-then-cancelled": (
        changed(STARTED, output=OUTPUT),
        Evidence("JobCancelled"),
        OutcomeClass.SUCCEEDED,
    ),
    "exit-0-without-a-commit": (
        STARTED,
        Evidence(task={"TaskArn": "arn:task", "Containers": [{"Name": "job", "ExitCode": 0}]}),
        OutcomeClass.NO_OUTPUT,
    ),
    "recorded-permanent": (
        changed(STARTED, result=RecordedResult(1, "permanent", "no such input")),
        task(65),
        OutcomeClass.PERMANENT,
    ),
    "recorded-out-of-memory": (
        changed(STARTED, result=RecordedResult(1, "out_of_memory", "heap")),
        task(1),
        OutcomeClass.OUT_OF_MEMORY,
    ),
    "recorded-unknown-class": (
        changed(STARTED, result=RecordedResult(1, "from-the-future", "?")),
        task(1),
        OutcomeClass.FAILED,
    ),
    "recorded-by-an-older-attempt": (
        changed(STARTED, attempt=2, result=RecordedResult(1, "permanent", "old")),
        task(1),
        OutcomeClass.FAILED,
    ),
    "exit-65": (STARTED, task(65), OutcomeClass.PERMANENT),
    "oom-killed": (
        STARTED,
        task(137, reason="OutOfMemoryError: Container killed due to memory usage"),
        OutcomeClass.OUT_OF_MEMORY,
    ),
    "killed": (STARTED, task(137), OutcomeClass.FAILED),
    "exit-1": (STARTED, task(1), OutcomeClass.FAILED),
    "exit-75": (STARTED, task(75), OutcomeClass.INTERRUPTED),
    "exit-77": (STARTED, task(77), OutcomeClass.REFUSED),
    "timed-out-at-work": (AT_WORK, Evidence("States.Timeout"), OutcomeClass.TIMED_OUT),
    "timed-out-cut-off-from-the-network": (
        changed(AT_WORK, reported_at=TIMES_OUT_AT - timedelta(minutes=4)),
        Evidence("States.Timeout"),
        OutcomeClass.INTERRUPTED,
    ),
    "timed-out-at-work-after-a-late-report": (
        changed(AT_WORK, reported_at=TIMES_OUT_AT - timedelta(minutes=3)),
        Evidence("States.Timeout"),
        OutcomeClass.TIMED_OUT,
    ),
    "timed-out-while-publishing": (
        changed(PUBLISHING, progress_at=TIMES_OUT_AT - timedelta(seconds=59)),
        Evidence("States.Timeout"),
        OutcomeClass.TIMED_OUT,
    ),
    "timed-out-while-the-publish-stood-still": (
        changed(PUBLISHING, progress_at=TIMES_OUT_AT - timedelta(seconds=60)),
        Evidence("States.Timeout"),
        OutcomeClass.INTERRUPTED,
    ),
    "timed-out-before-it-started": (
        running(),
        Evidence("States.Timeout"),
        OutcomeClass.INTERRUPTED,
    ),
    "stalled-before-its-first-report": (
        STARTED,
        Evidence("JobStalled", "no progress"),
        OutcomeClass.INTERRUPTED,
    ),
    "never-started": (
        running(),
        Evidence("JobStalled", "no sign of life"),
        OutcomeClass.INTERRUPTED,
    ),
    "stalled-at-work": (
        changed(AT_WORK, reported_at=NOW + timedelta(seconds=841)),
        Evidence("JobStalled", "no progress"),
        OutcomeClass.STALLED,
    ),
    "cut-off-at-work": (
        changed(AT_WORK, reported_at=NOW + timedelta(seconds=839)),
        Evidence("JobStalled", "no report"),
        OutcomeClass.INTERRUPTED,
    ),
    "stalled-at-work-in-an-older-version": (
        AT_WORK,
        Evidence("JobStalled", "no progress"),
        OutcomeClass.STALLED,
    ),
    "stalled-while-staging": (
        changed(STARTED, progress={"phase": Phase.STAGING.value}),
        Evidence("JobStalled", "no progress"),
        OutcomeClass.INTERRUPTED,
    ),
    "stalled-while-publishing": (
        PUBLISHING,
        Evidence("JobStalled", "no progress"),
        OutcomeClass.INTERRUPTED,
    ),
    "cancelled": (STARTED, Evidence("JobCancelled"), OutcomeClass.CANCELLED),
    "lease-lost": (STARTED, Evidence("LeaseLost"), OutcomeClass.SUPERSEDED),
    "spot": (
        STARTED,
        task(143, stop_code="SpotInterruption", stopped="Your Spot Task was interrupted."),
        OutcomeClass.INTERRUPTED,
    ),
    "termination-notice": (
        STARTED,
        task(137, stop_code="TerminationNotice"),
        OutcomeClass.INTERRUPTED,
    ),
    "infrastructure": (
        STARTED,
        task(None, stop_code="InfrastructureHealth"),
        OutcomeClass.INTERRUPTED,
    ),
    "stopped-by-hand": (STARTED, task(143, stop_code="UserInitiated"), OutcomeClass.INTERRUPTED),
    "failed-to-start": (
        running(),
        Evidence(
            "States.TaskFailed",
            json.dumps(
                {
                    "TaskArn": "arn:task",
                    "StopCode": "TaskFailedToStart",
                    "StoppedReason": "CannotPullContainerError: i/o timeout",
                }
            ),
        ),
        OutcomeClass.REFUSED,
    ),
    "capacity": (
        running(),
        Evidence("ECS.AmazonECSException", "Capacity is unavailable at this time"),
        OutcomeClass.NOT_PLACED,
    ),
    "throttle-under-another-error": (
        running(),
        Evidence("ECS.InvalidParameterException", "Rate exceeded"),
        OutcomeClass.NOT_PLACED,
    ),
    "inactive-task-definition": (
        running(),
        Evidence("ECS.ClientException", "TaskDefinition is inactive"),
        OutcomeClass.REFUSED,
    ),
    "unreadable-cause": (
        running(),
        Evidence("AmazonECS.Unknown", "not json {"),
        OutcomeClass.REFUSED,
    ),
    "execution-closed": (STARTED, Evidence.execution_closed("ABORTED"), OutcomeClass.INTERRUPTED),
    "stalled-after-a-stop": (
        INTERRUPTED,
        Evidence("JobStalled", "no progress"),
        OutcomeClass.STALLED,
    ),
    "timed-out-after-a-stop": (INTERRUPTED, Evidence("States.Timeout"), OutcomeClass.TIMED_OUT),
    "cancelled-after-a-stop": (INTERRUPTED, Evidence("JobCancelled"), OutcomeClass.CANCELLED),
    "stopped-from-outside": (INTERRUPTED, task(75), OutcomeClass.INTERRUPTED),
    "execution-stopped-by-hand": (
        INTERRUPTED,
        Evidence.execution_closed("ABORTED"),
        OutcomeClass.INTERRUPTED,
    ),
    "failed-while-being-stopped-as-stalled": (
        changed(STARTED, result=RecordedResult(1, "failed", "a bad row")),
        Evidence("JobStalled", "no progress"),
        OutcomeClass.FAILED,
    ),
}


@pytest.mark.parametrize(("lease", "evidence", "kind"), CASES.values(), ids=CASES.keys())
def test_evidence_and_row_determine_the_class_of_an_attempt(
    lease: Lease, evidence: Evidence, kind: OutcomeClass
) -> None:
    assert classify(lease, evidence).kind is kind


@pytest.mark.parametrize(
    "error", ["States.Timeout", "JobStalled", "JobCancelled", "ExecutionClosed"]
)
def test_task_that_may_still_run_is_stopped(error: str) -> None:
    assert classify(STARTED, Evidence(error)).stop_task


def test_task_that_has_ended_is_not_stopped() -> None:
    assert not classify(STARTED, task(1)).stop_task


def test_stall_of_a_job_run_that_never_started_is_a_wait_for_a_place() -> None:
    queued = running()
    told = queued.input.model_copy(update={"engine": "emr-serverless"})
    queued = replace(queued, execution_input=told.model_dump_json())
    for evidence in (Evidence("JobStalled", "no sign of life"), Evidence("States.Timeout")):
        verdict = classify(queued, evidence)
        assert (verdict.kind, verdict.stop_task) == (OutcomeClass.NOT_PLACED, True)


def test_stall_of_a_driver_whose_executors_never_came_is_a_wait_for_a_place() -> None:
    at = NOW + timedelta(minutes=15)
    alone = changed(STARTED, progress={"phase": Phase.WAITING.value}, reported_at=at)
    verdict = classify(alone, Evidence("JobStalled", "no progress"))
    assert (verdict.kind, verdict.stop_task) == (OutcomeClass.NOT_PLACED, True)


# What settle goes by, where several things are known of one attempt.


def ended(exit_code: int, stopped_reason: str = "") -> Evidence:
    task = {
        "TaskArn": "arn:task",
        "Containers": [{"Name": "job", "ExitCode": exit_code}],
        "StopCode": "EssentialContainerExited",
        "StoppedReason": stopped_reason,
    }
    return Evidence("States.TaskFailed", json.dumps(task))


def test_interruption_that_the_runner_recorded_counts_whatever_its_exit_code() -> None:
    recorded = RecordedResult(1, "interrupted", "S3 was out")

    assert classify(changed(STARTED, result=recorded), ended(1)).kind is OutcomeClass.INTERRUPTED


def test_out_of_memory_is_seen_in_the_reason_of_the_stop_too() -> None:
    evidence = ended(137, "OutOfMemoryError: the task was killed")

    assert classify(STARTED, evidence).kind is OutcomeClass.OUT_OF_MEMORY


CONTAINERS = (
    {"name": "job", "exitCode": 0},
    {"name": "aws-guardduty-agent-1a2b3c4", "exitCode": 137},
)


@pytest.mark.parametrize("containers", [*permutations(CONTAINERS)])
def test_a_sidecar_that_is_killed_makes_no_failure_of_a_task(
    containers: tuple[dict[str, Any], ...],
) -> None:
    assert _evidence_of({"containers": list(containers)}).error is None
