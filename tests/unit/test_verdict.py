"""What a verdict says, and what each kind of evidence decides."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from longhaul.core.lease import CommittedOutput, RecordedResult
from longhaul.core.settlement import classify, with_task
from longhaul.core.verdict import (
    MAX_ERROR_CHARS,
    Evidence,
    OutcomeClass,
    Verdict,
    searchable,
    shorten,
)
from tests.builders import NOW, changed, running

STARTED = changed(running(), progress_at=NOW, task_arn="arn:task")


def failed(**task: Any) -> Evidence:
    return Evidence("States.TaskFailed", json.dumps({"TaskArn": "arn:task", **task}))


def job_run(state: str, details: str | None = None) -> Evidence:
    run = {"JobRunId": "r-1", "State": state, "StateDetails": details}
    return Evidence("States.TaskFailed", json.dumps(run))


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (
            {
                "Containers": [{"Name": "job", "ExitCode": 137, "Reason": "OutOfMemoryError"}],
                "StopCode": "EssentialContainerExited",
                "StoppedReason": "Essential container in task exited",
            },
            (
                "exit code 137; OutOfMemoryError; EssentialContainerExited; "
                "Essential container in task exited"
            ),
        ),
        ({"Containers": [{"Name": "job"}], "StopCode": "UserInitiated"}, "UserInitiated"),
        ({"Containers": [{"Name": "job", "ExitCode": 0}]}, "exit code 0"),
        ({"Containers": []}, "the task ended without an exit code"),
    ],
)
def test_verdict_says_all_that_ecs_says_of_the_end_of_a_task(
    task: dict[str, Any], said: str
) -> None:
    assert classify(STARTED, failed(**task)).detail == said


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        # The kernel kills for lack of memory with 137, but so does a stop.
        (
            {"Containers": [{"Name": "job", "ExitCode": 1, "Reason": "OutOfMemory"}]},
            OutcomeClass.FAILED,
        ),
        # The platform stops a job that has just failed for its own reasons: those count.
        (
            {"Containers": [{"Name": "job", "ExitCode": 65}], "StopCode": "SpotInterruption"},
            OutcomeClass.PERMANENT,
        ),
        (
            {"Containers": [], "StopCode": "TaskFailedToStart", "StoppedReason": "RESOURCE:MEMORY"},
            OutcomeClass.NOT_PLACED,
        ),
        # Denied "on resource: …" is no lack of a RESOURCE:.
        (
            {
                "Containers": [],
                "StopCode": "TaskFailedToStart",
                "StoppedReason": "ResourceInitializationError: AccessDeniedException: User: x is "
                "not authorized to perform: ecr:GetAuthorizationToken on resource: *",
            },
            OutcomeClass.REFUSED,
        ),
        (
            {
                "StopCode": "ServiceSchedulerInitiated",
                "Containers": [{"Name": "job", "ExitCode": 143}],
            },
            OutcomeClass.INTERRUPTED,
        ),
        (
            {
                "StopCode": "UserInitiated",
                "StoppedReason": "Rate exceeded",
                "Containers": [{"Name": "job", "ExitCode": 143}],
            },
            OutcomeClass.INTERRUPTED,
        ),
        (
            {"StopCode": "InfrastructureHealth", "Containers": [{"Name": "job", "ExitCode": 143}]},
            OutcomeClass.INTERRUPTED,
        ),
        ({"Containers": [{"Name": "job", "ExitCode": 73}]}, OutcomeClass.SUPERSEDED),
        ({"Containers": [{"Name": "job", "ExitCode": 74}]}, OutcomeClass.OUT_OF_DISK),
    ],
)
def test_end_of_a_task_is_classified_by_its_code_and_its_stop(
    task: dict[str, Any], kind: OutcomeClass
) -> None:
    assert classify(STARTED, failed(**task)).kind is kind


@pytest.mark.parametrize(
    ("evidence", "task_arn", "kind"),
    [
        (job_run("CANCELLED", "ExitCode: 1"), "arn:run", OutcomeClass.INTERRUPTED),
        (job_run("FAILED"), "arn:run", OutcomeClass.INTERRUPTED),
        (job_run("FAILED", "maximumCapacity"), None, OutcomeClass.NOT_PLACED),
        (job_run("FAILED", "maximumCapacity"), "arn:run", OutcomeClass.INTERRUPTED),
        (job_run("FAILED", "a driver was lost"), None, OutcomeClass.INTERRUPTED),
        (job_run("FAILED", "ExitCode: 65."), "arn:run", OutcomeClass.PERMANENT),
        (job_run("FAILED", "ExitCode: 1."), "arn:run", OutcomeClass.FAILED),
        # Before our code began its role could not fetch it; afterwards it is the job's own affair.
        (job_run("FAILED", "ExitCode: 1. AccessDeniedException"), None, OutcomeClass.REFUSED),
        (job_run("FAILED", "s3://a/b: AccessDenied"), None, OutcomeClass.REFUSED),
        (job_run("FAILED", "ExitCode: 1. AccessDeniedException"), "arn", OutcomeClass.FAILED),
        (job_run("FAILED", "ExitCode: 1. OutOfMemoryError"), "arn", OutcomeClass.OUT_OF_MEMORY),
        (
            job_run("FAILED", "ExitCode: 137. Worker has been killed as memory usage exceeded"),
            "arn",
            OutcomeClass.OUT_OF_MEMORY,
        ),
        (job_run("FAILED", "ExitCode: 137."), "arn", OutcomeClass.FAILED),
        (job_run("FAILED", "ExitCode: 65. OutOfMemoryError"), "arn", OutcomeClass.PERMANENT),
    ],
)
def test_job_run_is_classified_by_its_state_and_by_its_drivers_code(
    evidence: Evidence, task_arn: str | None, kind: OutcomeClass
) -> None:
    assert classify(changed(running(), task_arn=task_arn), evidence).kind is kind


def test_verdict_of_a_job_run_names_its_state_and_its_details() -> None:
    assert classify(STARTED, job_run("FAILED", "lost")).detail == "job run failed: lost"
    assert classify(STARTED, job_run("FAILED")).detail == "job run failed"


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (
            Evidence("ECS.ClientException", "You've requested a configuration is above your limit"),
            OutcomeClass.PERMANENT,
        ),
        (
            Evidence("ECS.PlatformTaskDefinitionIncompatibilityException", "no such platform"),
            OutcomeClass.PERMANENT,
        ),
        (Evidence("Lambda.Unknown", "Rate exceeded"), OutcomeClass.INTERRUPTED),
        (Evidence("Lambda.ClientExecutionTimeoutException"), OutcomeClass.INTERRUPTED),
        (Evidence("Lambda.EFSIOException"), OutcomeClass.INTERRUPTED),
        (Evidence("Lambda.ResourceNotFoundException", "deleted"), OutcomeClass.REFUSED),
    ],
)
def test_refusal_is_read_by_its_words_only_from_a_service_that_starts_tasks(
    evidence: Evidence, verdict: OutcomeClass
) -> None:
    assert classify(running(), evidence).kind is verdict


def test_refusal_of_a_task_that_has_registered_was_a_lost_answer_and_the_task_is_stopped() -> None:
    words = "ECS.AmazonECSException: Rate exceeded"
    evidence = Evidence("ECS.AmazonECSException", "Rate exceeded")

    assert classify(STARTED, evidence) == Verdict(OutcomeClass.INTERRUPTED, words, stop_task=True)
    assert classify(running(), evidence) == Verdict(OutcomeClass.NOT_PLACED, words)


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        (
            Evidence("ECS.ServerException", "Service Unavailable. Please try again later."),
            OutcomeClass.NOT_PLACED,
        ),
        (
            Evidence("ECS.AmazonECSException", "(Service: AmazonECS; Status Code: 500)"),
            OutcomeClass.NOT_PLACED,
        ),
        (
            Evidence("ECS.SdkClientException", "Unable to execute HTTP request"),
            OutcomeClass.NOT_PLACED,
        ),
        (Evidence("EMRServerless.InternalServerException", ""), OutcomeClass.NOT_PLACED),
        (
            Evidence("AmazonECS.Unknown", '{"Failures": [{"Reason": "RESOURCE:CPU"}]}'),
            OutcomeClass.NOT_PLACED,
        ),
        (
            Evidence("ECS.AccessDeniedException", "denied on resource: arn:aws:iam::1:role/x"),
            OutcomeClass.REFUSED,
        ),
        (Evidence("ECS.ClusterNotFoundException", "Cluster not found."), OutcomeClass.REFUSED),
        (
            Evidence("ECS.BlockedException", "Your account is currently blocked."),
            OutcomeClass.REFUSED,
        ),
        (
            Evidence("EMRServerless.ValidationException", "1 validation error detected"),
            OutcomeClass.REFUSED,
        ),
        (Evidence("EMRServerless.ResourceNotFoundException", ""), OutcomeClass.REFUSED),
        (Evidence("States.Permissions", "not authorized"), OutcomeClass.REFUSED),
    ],
)
def test_refusal_that_does_not_end_by_itself_needs_people(
    evidence: Evidence, kind: OutcomeClass
) -> None:
    assert classify(running(), evidence).kind is kind


def test_size_above_the_accounts_limit_says_the_way_out() -> None:
    evidence = Evidence("ECS.ClientException", "the configuration is above your limit")

    assert "take a smaller size" in classify(running(), evidence).detail


@pytest.mark.parametrize(
    ("evidence", "detail"),
    [
        (Evidence("JobStalled", "no progress for 15m"), "no progress for 15m"),
        (Evidence("JobStalled"), "the task never started"),
        (Evidence("JobCancelled", "cancelled at noon"), "cancelled at noon"),
        (Evidence("JobCancelled"), "JobCancelled"),
        (Evidence("States.Timeout"), "the task did not start within its timeout of 21600 s"),
    ],
)
def test_verdict_on_an_attempt_that_never_reported_says_what_ended_it(
    evidence: Evidence, detail: str
) -> None:
    assert classify(running(), evidence).detail == detail


def test_execution_that_was_stopped_by_hand_says_so() -> None:
    assert classify(running(), Evidence.execution_closed("ABORTED")).detail == (
        "ExecutionClosed: the execution ended ABORTED before its attempt was settled"
    )


def test_timeout_before_the_first_report_stops_the_task_that_may_come() -> None:
    assert classify(running(), Evidence("States.Timeout")).stop_task


def test_timeout_of_a_job_at_work_stops_it_and_names_the_limit() -> None:
    at_work = changed(STARTED, progress={"phase": "running"})

    assert classify(at_work, Evidence("States.Timeout")) == Verdict(
        OutcomeClass.TIMED_OUT, "ran longer than its timeout of 21600 s", stop_task=True
    )


def test_timeout_of_a_waiting_runner_says_for_how_long_nothing_had_moved() -> None:
    verdict = classify(
        changed(STARTED, progress_at=NOW + timedelta(seconds=21_000)), Evidence("States.Timeout")
    )

    assert (verdict.kind, verdict.stop_task) == (OutcomeClass.INTERRUPTED, True)
    assert "nothing had moved for 600 s" in verdict.detail


@pytest.mark.parametrize("error", [None, "JobCancelled", "States.Timeout", "ExecutionClosed"])
def test_task_of_an_attempt_that_committed_is_left_to_end(error: str | None) -> None:
    output = CommittedOutput(1, 2, 10, prefix="s3://longhaul-data/out/")

    assert classify(changed(STARTED, output=output), Evidence(error)) == Verdict(
        OutcomeClass.SUCCEEDED, "output committed", stop_task=False
    )


@pytest.mark.parametrize(
    ("evidence", "stop_task"),
    [
        (Evidence("States.Timeout"), True),
        (Evidence("JobStalled"), True),
        (Evidence("JobCancelled"), True),
        (Evidence("LeaseLost"), True),
        (Evidence("ExecutionClosed"), True),
        (failed(Containers=[{"ExitCode": 1}]), False),
    ],
)
def test_recorded_failure_speaks_for_itself_and_what_may_still_run_is_stopped(
    evidence: Evidence, *, stop_task: bool
) -> None:
    row = changed(STARTED, result=RecordedResult(1, "failed", "a bad row"))

    assert classify(row, evidence) == Verdict(OutcomeClass.FAILED, "a bad row", stop_task)


# It last moved at NOW, its last report came a minute later, and its stall timeout is 15 minutes.
CUT_OFF = changed(STARTED, progress={"phase": "running"}, reported_at=NOW + timedelta(minutes=1))


def test_silent_runner_is_stopped_as_interrupted_but_a_cancel_of_it_is_a_cancel() -> None:
    assert classify(CUT_OFF, Evidence("JobStalled", "no report")) == Verdict(
        OutcomeClass.INTERRUPTED, "no report", stop_task=True
    )
    assert classify(CUT_OFF, Evidence("JobCancelled", "by hand")) == Verdict(
        OutcomeClass.CANCELLED, "by hand", stop_task=True
    )
    assert classify(CUT_OFF, Evidence("LeaseLost", "by another")) == Verdict(
        OutcomeClass.SUPERSEDED, "by another", stop_task=False
    )


def test_runner_that_reported_until_a_minute_before_its_stall_was_not_cut_off() -> None:
    heard = changed(CUT_OFF, reported_at=NOW + timedelta(minutes=14))

    assert classify(heard, Evidence("JobStalled")).kind is OutcomeClass.STALLED


def test_timeout_of_a_runner_that_fell_silent_long_before_stops_it() -> None:
    verdict = classify(CUT_OFF, Evidence("States.Timeout"))

    assert (verdict.kind, verdict.stop_task) == (OutcomeClass.INTERRUPTED, True)
    assert "its last report was long past" in verdict.detail


def test_stall_of_a_job_run_that_has_started_is_no_wait_for_a_place() -> None:
    told = STARTED.input.model_copy(update={"engine": "emr-serverless"})
    started = replace(STARTED, execution_input=told.model_dump_json())

    assert classify(started, Evidence("JobStalled")).kind is OutcomeClass.INTERRUPTED


@pytest.mark.parametrize(
    ("given", "paid"),
    [
        (
            {"PullStartedAt": 1_000, "StartedAt": 60_000, "StoppedAt": 90_500},
            (datetime.fromtimestamp(1, UTC), datetime.fromtimestamp(90.5, UTC)),
        ),
        ({"StartedAt": 60_000.5}, (datetime.fromtimestamp(60.0005, UTC), None)),
        ({"StoppedAt": "a text"}, (None, None)),
    ],
)
def test_task_is_paid_for_from_the_pull_of_its_image_to_its_stop(
    given: dict[str, Any], paid: tuple[datetime | None, datetime | None]
) -> None:
    attempt = with_task(running(), failed(**given)).attempt

    assert (attempt.task_from, attempt.task_until) == paid


@pytest.mark.parametrize(
    ("registered", "reported", "kept"),
    [
        (None, "arn:told", "arn:told"),  # it ended before it registered
        ("arn:first", "arn:second", "arn:first"),  # a second task withdrew
        (None, 17, None),
    ],
)
def test_task_of_an_attempt_is_the_one_that_registered_else_the_one_that_ended(
    registered: str | None, reported: object, kept: str | None
) -> None:
    row = changed(running(), task_arn=registered)

    assert with_task(row, failed(TaskArn=reported)).attempt.task_arn == kept


def test_task_that_ended_well_is_known_from_its_description() -> None:
    described = {"TaskArn": "arn:told", "StartedAt": 1_000, "StoppedAt": 2_000}
    attempt = with_task(running(), Evidence(task=described)).attempt

    assert (attempt.task_arn, attempt.task_from, attempt.task_until) == (
        "arn:told",
        datetime.fromtimestamp(1, UTC),
        datetime.fromtimestamp(2, UTC),
    )


def test_evidence_without_a_task_leaves_what_the_row_has() -> None:
    after = with_task(STARTED, Evidence("JobStalled", "no progress"))

    assert after == replace(STARTED, attempt=replace(STARTED.attempt))


@pytest.mark.parametrize(
    "cause", [{"Message": "Rate exceeded"}, "TaskArn", ["TaskArn"], ["JobRunId"], 17, None]
)
def test_cause_that_is_json_of_something_else_is_no_task(cause: object) -> None:
    verdict = classify(running(), Evidence("ECS.ServerException", json.dumps(cause)))

    assert verdict.kind is OutcomeClass.NOT_PLACED


@pytest.mark.parametrize(("length", "kept"), [(32_768, 32_768), (32_769, 32_771)])
def test_long_text_is_searched_at_its_beginning_and_its_end(length: int, kept: int) -> None:
    text = "a" + "x" * (length - 2) + "z"

    assert len(searchable(text)) == kept
    assert (searchable(text)[0], searchable(text)[-1]) == ("a", "z")


def test_error_text_is_cut_only_beyond_its_limit() -> None:
    assert shorten("x" * MAX_ERROR_CHARS) == "x" * MAX_ERROR_CHARS
    shown = shorten("x" * (MAX_ERROR_CHARS + 1))
    kept = shown.count("x")
    assert shown == f"{'x' * kept}… (and {MAX_ERROR_CHARS + 1 - kept} more characters)"
    assert MAX_ERROR_CHARS - 3 <= len(shown) <= MAX_ERROR_CHARS
