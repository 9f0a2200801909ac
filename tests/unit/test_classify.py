"""How an attempt ended, by its row and by what Step Functions and the engine say."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest

from longhaul.core import settlement
from longhaul.core.lease import Lease, RecordedResult
from longhaul.core.verdict import (
    MAX_ERROR_CHARS,
    Evidence,
    OutcomeClass,
    Verdict,
    searchable,
    shorten,
)
from longhaul.engines.fargate.tasks import _evidence_of
from longhaul.engines.listed import ENGINES
from longhaul.runner.reporting import Phase
from tests.builders import NOW, OUTPUT, changed, running

STARTED = changed(running(), progress_at=NOW, task_arn="arn:task")
AT_WORK = changed(STARTED, progress={"phase": Phase.RUNNING.value})
PUBLISHING = changed(STARTED, progress={"phase": Phase.PUBLISHING.value})
INTERRUPTED = changed(AT_WORK, result=RecordedResult(1, "interrupted", "asked to stop (SIGTERM)"))
TIMES_OUT_AT = STARTED.attempt.claimed_at + timedelta(seconds=STARTED.input.timeout_s)


def classify(lease: Lease, evidence: Evidence) -> Verdict:
    return settlement.classify(lease, evidence, ENGINES)


def with_task(lease: Lease, evidence: Evidence) -> Lease:
    return settlement.with_task(lease, evidence, ENGINES)


def failed(**task: Any) -> Evidence:
    return Evidence("States.TaskFailed", json.dumps({"TaskArn": "arn:task", **task}))


def exited(exit_code: int, stop_code: str = "EssentialContainerExited", **task: Any) -> Evidence:
    container = {"Name": "job", "ExitCode": exit_code}
    return failed(Containers=[container], StopCode=stop_code, **task)


def job_run(state: str, details: str | None = None) -> Evidence:
    run = {"JobRunId": "r-1", "State": state, "StateDetails": details}
    return Evidence("States.TaskFailed", json.dumps(run))


def on_emr(row: Lease) -> Lease:
    told = row.input.model_copy(update={"engine": "emr-serverless"})
    return replace(row, execution_input=told.model_dump_json())


CASES = {
    "committed-then-killed": (changed(STARTED, output=OUTPUT), exited(137), OutcomeClass.SUCCEEDED),
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
        exited(65),
        OutcomeClass.PERMANENT,
    ),
    "recorded-out-of-memory": (
        changed(STARTED, result=RecordedResult(1, "out_of_memory", "heap")),
        exited(1),
        OutcomeClass.OUT_OF_MEMORY,
    ),
    "recorded-unknown-class": (
        changed(STARTED, result=RecordedResult(1, "from-the-future", "?")),
        exited(1),
        OutcomeClass.FAILED,
    ),
    "recorded-by-an-older-attempt": (
        changed(STARTED, attempt=2, result=RecordedResult(1, "permanent", "old")),
        exited(1),
        OutcomeClass.FAILED,
    ),
    "exit-65": (STARTED, exited(65), OutcomeClass.PERMANENT),
    "oom-killed": (
        STARTED,
        failed(
            Containers=[
                {
                    "Name": "job",
                    "ExitCode": 137,
                    "Reason": "OutOfMemoryError: Container killed",
                }
            ]
        ),
        OutcomeClass.OUT_OF_MEMORY,
    ),
    "killed": (STARTED, exited(137), OutcomeClass.FAILED),
    "exit-1": (STARTED, exited(1), OutcomeClass.FAILED),
    "exit-75": (STARTED, exited(75), OutcomeClass.INTERRUPTED),
    "exit-77": (STARTED, exited(77), OutcomeClass.REFUSED),
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
        exited(143, "SpotInterruption", StoppedReason="Your Spot Task was interrupted."),
        OutcomeClass.INTERRUPTED,
    ),
    "termination-notice": (
        STARTED,
        exited(137, "TerminationNotice"),
        OutcomeClass.INTERRUPTED,
    ),
    "infrastructure": (
        STARTED,
        failed(Containers=[{"Name": "job"}], StopCode="InfrastructureHealth"),
        OutcomeClass.INTERRUPTED,
    ),
    "stopped-by-hand": (STARTED, exited(143, "UserInitiated"), OutcomeClass.INTERRUPTED),
    "failed-to-start": (
        running(),
        failed(StopCode="TaskFailedToStart", StoppedReason="CannotPullContainerError: i/o timeout"),
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
    "stopped-from-outside": (INTERRUPTED, exited(75), OutcomeClass.INTERRUPTED),
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
    "stalled-job-run-that-has-started": (
        on_emr(STARTED),
        Evidence("JobStalled"),
        OutcomeClass.INTERRUPTED,
    ),
    "interruption-that-the-runner-recorded": (
        changed(STARTED, result=RecordedResult(1, "interrupted", "S3 was out")),
        exited(1),
        OutcomeClass.INTERRUPTED,
    ),
    "out-of-memory-in-the-reason-of-the-stop": (
        STARTED,
        exited(137, StoppedReason="OutOfMemoryError: the task was killed"),
        OutcomeClass.OUT_OF_MEMORY,
    ),
}

# By the end of a task that had started.
ENDS: list[tuple[dict[str, Any], OutcomeClass]] = [
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
]
# By the end of a job run, and the task that the row knows.
JOB_RUNS: list[tuple[Evidence, str | None, OutcomeClass]] = [
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
]
# Of an attempt that has no task. Words count only from a service that starts tasks.
REFUSALS: list[tuple[Evidence, OutcomeClass]] = [
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
    *(
        (Evidence("ECS.ServerException", json.dumps(cause)), OutcomeClass.NOT_PLACED)
        for cause in ({"Message": "Rate exceeded"}, "TaskArn", ["TaskArn"], ["JobRunId"], 17, None)
    ),
]


@pytest.mark.parametrize(
    ("lease", "evidence", "kind"),
    [
        *(pytest.param(*case, id=name) for name, case in CASES.items()),
        *((STARTED, failed(**task), kind) for task, kind in ENDS),
        *((changed(running(), task_arn=arn), run, kind) for run, arn, kind in JOB_RUNS),
        *((running(), refusal, kind) for refusal, kind in REFUSALS),
    ],
)
def test_evidence_and_row_determine_the_class_of_an_attempt(
    lease: Lease, evidence: Evidence, kind: OutcomeClass
) -> None:
    assert classify(lease, evidence).kind is kind


@pytest.mark.parametrize(
    "error", ["States.Timeout", "JobStalled", "JobCancelled", "ExecutionClosed"]
)
def test_task_that_may_still_run_is_stopped(error: str) -> None:
    assert classify(STARTED, Evidence(error)).stop_task


def test_stall_of_a_job_run_that_never_started_is_a_wait_for_a_place() -> None:
    queued = on_emr(running())
    for evidence in (Evidence("JobStalled", "no sign of life"), Evidence("States.Timeout")):
        verdict = classify(queued, evidence)
        assert (verdict.kind, verdict.stop_task) == (OutcomeClass.NOT_PLACED, True)


def test_stall_of_a_driver_whose_executors_never_came_is_a_wait_for_a_place() -> None:
    at = NOW + timedelta(minutes=15)
    alone = changed(STARTED, progress={"phase": Phase.WAITING.value}, reported_at=at)
    verdict = classify(alone, Evidence("JobStalled", "no progress"))
    assert (verdict.kind, verdict.stop_task) == (OutcomeClass.NOT_PLACED, True)


# What settle goes by, where several things are known of one attempt.


CONTAINERS = (
    {"name": "job", "exitCode": 0},
    {"name": "aws-guardduty-agent-1a2b3c4", "exitCode": 137},
)


@pytest.mark.parametrize("containers", [*permutations(CONTAINERS)])
def test_a_sidecar_that_is_killed_makes_no_failure_of_a_task(
    containers: tuple[dict[str, Any], ...],
) -> None:
    assert _evidence_of({"containers": list(containers)}).error is None


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


def test_verdict_of_a_job_run_names_its_state_and_its_details() -> None:
    assert classify(STARTED, job_run("FAILED", "lost")).detail == "job run failed: lost"
    assert classify(STARTED, job_run("FAILED")).detail == "job run failed"


def test_refusal_of_a_task_that_has_registered_was_a_lost_answer_and_the_task_is_stopped() -> None:
    words = "ECS.AmazonECSException: Rate exceeded"
    evidence = Evidence("ECS.AmazonECSException", "Rate exceeded")

    assert classify(STARTED, evidence) == Verdict(OutcomeClass.INTERRUPTED, words, stop_task=True)
    assert classify(running(), evidence) == Verdict(OutcomeClass.NOT_PLACED, words)


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
    assert classify(changed(STARTED, output=OUTPUT), Evidence(error)) == Verdict(
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
