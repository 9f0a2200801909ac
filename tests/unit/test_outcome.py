import json
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from jobs.reporting import Phase
from longhaul.domain.lease import CommittedOutput, Lease, Owed, RecordedResult, State
from longhaul.domain.outcome import Evidence, OutcomeClass, Settlement, Verdict, classify, settle
from longhaul.settings import LeaseSettings
from tests.builders import NOW, running, stage

OUTPUT = CommittedOutput(
    attempt=1, pending_ref="longhaul/pending/x", prefix="s3://longhaul-data/out/", files=2, size_bytes=10
)
STARTED = replace(running(), progress_at=NOW, task_arn="arn:task")
AT_WORK = replace(STARTED, progress={"phase": Phase.RUNNING.value})
PUBLISHING = replace(STARTED, progress={"phase": Phase.PUBLISHING.value})
TOLD_TO_STOP = replace(AT_WORK, result=RecordedResult(1, "interrupted", "asked to stop (SIGTERM)"))
UP = STARTED.claimed_at + timedelta(seconds=STARTED.input.timeout_s)  # when its time is up


def task(
    exit_code: int | None, reason: str = "", stop_code: str = "EssentialContainerExited", stopped: str = ""
) -> Evidence:
    container: dict[str, Any] = {"Name": "job", "Reason": reason}
    if exit_code is not None:
        container["ExitCode"] = exit_code
    cause = {"TaskArn": "arn:task", "Containers": [container], "StopCode": stop_code, "StoppedReason": stopped}
    return Evidence("States.TaskFailed", json.dumps(cause))


@pytest.mark.parametrize(
    ("lease", "evidence", "kind"),
    [
        pytest.param(replace(STARTED, output=OUTPUT), task(137), OutcomeClass.SUCCEEDED, id="committed-then-killed"),
        pytest.param(
            replace(STARTED, output=OUTPUT),
            Evidence("JobCancelled"),
            OutcomeClass.SUCCEEDED,
            id="committed-then-cancelled",
        ),
        pytest.param(
            STARTED,
            Evidence(task={"TaskArn": "arn:task", "Containers": [{"ExitCode": 0}]}),
            OutcomeClass.NO_OUTPUT,
            id="exit-0-nothing-committed",
        ),
        pytest.param(
            replace(STARTED, result=RecordedResult(1, "permanent", "no such input")),
            task(65),
            OutcomeClass.PERMANENT,
            id="recorded-permanent",
        ),
        pytest.param(
            replace(STARTED, result=RecordedResult(1, "out_of_memory", "heap")),
            task(1),
            OutcomeClass.OUT_OF_MEMORY,
            id="recorded-out-of-memory",
        ),
        pytest.param(
            replace(STARTED, result=RecordedResult(1, "from-the-future", "?")),
            task(1),
            OutcomeClass.FAILED,
            id="recorded-unknown-class",
        ),
        pytest.param(
            replace(STARTED, attempt=2, result=RecordedResult(1, "permanent", "old")),
            task(1),
            OutcomeClass.FAILED,
            id="recorded-by-an-older-attempt",
        ),
        pytest.param(STARTED, task(65), OutcomeClass.PERMANENT, id="exit-65"),
        pytest.param(
            STARTED,
            task(137, reason="OutOfMemoryError: Container killed due to memory usage"),
            OutcomeClass.OUT_OF_MEMORY,
            id="oom-killed",
        ),
        pytest.param(STARTED, task(137), OutcomeClass.FAILED, id="killed"),
        pytest.param(STARTED, task(1), OutcomeClass.FAILED, id="exit-1"),
        pytest.param(STARTED, task(75), OutcomeClass.INTERRUPTED, id="told-to-stop"),
        pytest.param(AT_WORK, Evidence("States.Timeout"), OutcomeClass.TIMED_OUT, id="timed-out-at-work"),
        pytest.param(
            replace(PUBLISHING, progress_at=UP - timedelta(seconds=59)),
            Evidence("States.Timeout"),
            OutcomeClass.TIMED_OUT,
            id="timed-out-while-publishing",
        ),
        pytest.param(
            replace(PUBLISHING, progress_at=UP - timedelta(seconds=60)),
            Evidence("States.Timeout"),
            OutcomeClass.INTERRUPTED,
            id="timed-out-while-nothing-was-published",
        ),
        pytest.param(running(), Evidence("States.Timeout"), OutcomeClass.INTERRUPTED, id="timed-out-before-it-started"),
        pytest.param(
            STARTED,
            Evidence("JobStalled", "no progress"),
            OutcomeClass.INTERRUPTED,
            id="stalled-before-its-first-report",
        ),
        pytest.param(
            running(), Evidence("JobStalled", "no sign of life"), OutcomeClass.INTERRUPTED, id="never-started"
        ),
        pytest.param(
            AT_WORK,
            Evidence("JobStalled", "no progress"),
            OutcomeClass.STALLED,
            id="stalled-at-work",
        ),
        pytest.param(
            replace(STARTED, progress={"phase": Phase.STAGING.value}),
            Evidence("JobStalled", "no progress"),
            OutcomeClass.INTERRUPTED,
            id="stalled-while-staging",
        ),
        pytest.param(
            PUBLISHING,
            Evidence("JobStalled", "no progress"),
            OutcomeClass.INTERRUPTED,
            id="stalled-while-publishing",
        ),
        pytest.param(STARTED, Evidence("JobCancelled"), OutcomeClass.CANCELLED, id="cancelled"),
        pytest.param(STARTED, Evidence("LeaseLost"), OutcomeClass.SUPERSEDED, id="lease-lost"),
        pytest.param(
            STARTED,
            task(143, stop_code="SpotInterruption", stopped="Your Spot Task was interrupted."),
            OutcomeClass.INTERRUPTED,
            id="spot",
        ),
        pytest.param(
            STARTED, task(137, stop_code="TerminationNotice"), OutcomeClass.INTERRUPTED, id="termination-notice"
        ),
        pytest.param(
            STARTED, task(None, stop_code="InfrastructureHealth"), OutcomeClass.INTERRUPTED, id="infrastructure"
        ),
        pytest.param(STARTED, task(143, stop_code="UserInitiated"), OutcomeClass.INTERRUPTED, id="stopped-by-hand"),
        pytest.param(
            running(),
            Evidence(
                "States.TaskFailed",
                json.dumps(
                    {
                        "TaskArn": "arn:task",
                        "StopCode": "TaskFailedToStart",
                        "StoppedReason": "CannotPullContainerError",
                    }
                ),
            ),
            OutcomeClass.INTERRUPTED,
            id="failed-to-start-without-containers",
        ),
        pytest.param(
            running(),
            Evidence("ECS.AmazonECSException", "Capacity is unavailable at this time"),
            OutcomeClass.INTERRUPTED,
            id="capacity",
        ),
        pytest.param(
            running(),
            Evidence("ECS.InvalidParameterException", "Rate exceeded"),
            OutcomeClass.INTERRUPTED,
            id="throttle-in-disguise",
        ),
        pytest.param(
            running(),
            Evidence("ECS.ClientException", "TaskDefinition is inactive"),
            OutcomeClass.INTERRUPTED,
            id="inactive-task-definition",
        ),
        pytest.param(
            running(), Evidence("AmazonECS.Unknown", "not json {"), OutcomeClass.INTERRUPTED, id="unreadable-cause"
        ),
        pytest.param(STARTED, Evidence.execution_closed("ABORTED"), OutcomeClass.INTERRUPTED, id="execution-closed"),
        pytest.param(
            TOLD_TO_STOP, Evidence("JobStalled", "no progress"), OutcomeClass.STALLED, id="stalled-and-stopped"
        ),
        pytest.param(TOLD_TO_STOP, Evidence("States.Timeout"), OutcomeClass.TIMED_OUT, id="timed-out-and-stopped"),
        pytest.param(TOLD_TO_STOP, Evidence("JobCancelled"), OutcomeClass.CANCELLED, id="cancelled-and-stopped"),
        pytest.param(TOLD_TO_STOP, task(75), OutcomeClass.INTERRUPTED, id="stopped-by-somebody-else"),
        pytest.param(
            TOLD_TO_STOP, Evidence.execution_closed("ABORTED"), OutcomeClass.INTERRUPTED, id="stopped-by-hand"
        ),
        pytest.param(
            replace(STARTED, result=RecordedResult(1, "failed", "a bad row")),
            Evidence("JobStalled", "no progress"),
            OutcomeClass.FAILED,
            id="failed-by-itself-as-it-was-called-stalled",
        ),
    ],
)
def test_an_attempt_is_classified(lease: Lease, evidence: Evidence, kind: OutcomeClass) -> None:
    assert classify(lease, evidence).kind is kind


@pytest.mark.parametrize("error", ["States.Timeout", "JobStalled", "JobCancelled", "ExecutionClosed"])
def test_a_task_that_may_still_run_is_stopped(error: str) -> None:
    assert classify(STARTED, Evidence(error)).stop_task


def test_a_task_that_ended_is_not_stopped() -> None:
    assert not classify(STARTED, task(1)).stop_task


def settled(kind: OutcomeClass, lease: Lease = STARTED, *, stop_task: bool = False) -> Settlement:
    return settle(lease, Verdict(kind, "why", stop_task), stage(), LeaseSettings(), NOW, random.Random(1))


def test_success_owes_its_publish_and_the_delete() -> None:
    after = settled(OutcomeClass.SUCCEEDED, replace(STARTED, output=OUTPUT)).lease
    assert (after.state, after.owed, after.settled_attempt) == (State.SUCCEEDED, (Owed.PUBLISH, Owed.DELETE), 1)


def test_success_in_a_stage_that_leads_on_owes_its_follow_ons_before_the_message_goes() -> None:
    verdict = Verdict(OutcomeClass.SUCCEEDED, "")
    after = settle(STARTED, verdict, stage(next=("other",)), LeaseSettings(), NOW, random.Random(1)).lease
    assert after.owed == (Owed.PUBLISH, Owed.FOLLOW_ONS, Owed.DELETE)


def test_success_that_the_runner_published_owes_only_the_delete() -> None:
    assert settled(OutcomeClass.SUCCEEDED, replace(STARTED, output=OUTPUT, published_at=NOW)).lease.owed == (
        Owed.DELETE,
    )


def test_a_failure_counts_and_is_released_within_its_back_off() -> None:
    settlement = settled(OutcomeClass.FAILED)
    assert (settlement.lease.state, settlement.lease.failures, settlement.lease.interruptions) == (State.RELEASED, 1, 0)
    assert settlement.retry_in_s is not None
    assert 0 <= settlement.retry_in_s <= 10
    assert settlement.lease.retry_at == NOW + timedelta(seconds=settlement.retry_in_s)


def test_the_last_failure_is_dead_lettered_before_the_message_goes() -> None:
    after = settled(OutcomeClass.FAILED, replace(STARTED, failures=2)).lease
    assert (after.state, after.failures, after.owed) == (State.DEAD, 3, (Owed.DEAD_LETTER, Owed.DELETE))


def test_a_permanent_failure_is_dead_lettered_at_once() -> None:
    assert settled(OutcomeClass.PERMANENT).lease.state is State.DEAD


def test_an_interruption_does_not_count_as_a_failure() -> None:
    after = settled(OutcomeClass.INTERRUPTED, replace(STARTED, failures=2)).lease
    assert (after.state, after.failures, after.interruptions) == (State.RELEASED, 2, 1)


def test_interruptions_end_too() -> None:
    assert settled(OutcomeClass.INTERRUPTED, replace(STARTED, interruptions=18)).lease.state is State.RELEASED
    assert settled(OutcomeClass.INTERRUPTED, replace(STARTED, interruptions=19)).lease.state is State.DEAD


def test_after_a_stop_the_next_attempt_waits_until_the_task_is_surely_gone() -> None:
    assert settled(OutcomeClass.STALLED, stop_task=True).retry_in_s == 150


def test_out_of_memory_is_retried_with_the_next_size_and_the_largest_stays() -> None:
    assert settled(OutcomeClass.OUT_OF_MEMORY).lease.input.size == "medium"
    largest = replace(STARTED, execution_input=STARTED.input.model_copy(update={"size": "xlarge"}).model_dump_json())
    assert settled(OutcomeClass.OUT_OF_MEMORY, largest).lease.input.size == "xlarge"


def test_a_cancelled_job_is_deleted_and_not_retried_however_its_task_ended() -> None:
    assert settled(OutcomeClass.CANCELLED).lease.owed == (Owed.DELETE,)
    after = settled(OutcomeClass.INTERRUPTED, replace(STARTED, cancel_requested_at=NOW)).lease
    assert (after.state, after.last_class) == (State.CANCELLED, "cancelled")


def test_a_long_error_is_cut() -> None:
    after = settle(
        STARTED, Verdict(OutcomeClass.FAILED, "x" * 10_000), stage(), LeaseSettings(), NOW, random.Random(1)
    ).lease
    assert after.last_error is not None
    assert len(after.last_error) == 800
