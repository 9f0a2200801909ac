"""How an attempt ended, by its row and by what Step Functions and the engine say."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from longhaul.core import settlement
from longhaul.core.lease import Lease, RecordedResult
from longhaul.core.verdict import (
    MAX_ERROR_CHARS,
    Evidence,
    OutcomeClass,
    Verdict,
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


# What settle goes by, where several things are known of one attempt.


# It last moved at NOW, its last report came a minute later, and its stall timeout is 15 minutes.
CUT_OFF = changed(STARTED, progress={"phase": "running"}, reported_at=NOW + timedelta(minutes=1))
RECORDED = changed(STARTED, result=RecordedResult(1, "failed", "a bad row"))
COMMITTED = changed(STARTED, output=OUTPUT)
# A driver whose executors never came.
ALONE = changed(
    STARTED,
    progress={"phase": Phase.WAITING.value},
    reported_at=NOW + timedelta(minutes=15),
)
THROTTLED = Evidence("ECS.AmazonECSException", "Rate exceeded")
IN_WORDS = "ECS.AmazonECSException: Rate exceeded"
STALLED, TIMED_OUT = Evidence("JobStalled", "no progress for 15m"), Evidence("States.Timeout")

# By what the test shows: what is known, and what the verdict says of it.
VERDICTS: dict[str, tuple[Lease, Evidence, Verdict]] = {
    "a task that may still run is stopped": (
        STARTED,
        STALLED,
        Verdict(OutcomeClass.INTERRUPTED, "no progress for 15m", stop_task=True),
    ),
    "also at a cancel": (
        STARTED,
        Evidence("JobCancelled", "cancelled at noon"),
        Verdict(OutcomeClass.CANCELLED, "cancelled at noon", stop_task=True),
    ),
    "also of an execution that was stopped by hand": (
        STARTED,
        Evidence.execution_closed("ABORTED"),
        Verdict(
            OutcomeClass.INTERRUPTED,
            "ExecutionClosed: the execution ended ABORTED before its attempt was settled",
            stop_task=True,
        ),
    ),
    "at its timeout, with the limit": (
        changed(STARTED, progress={"phase": "running"}),
        TIMED_OUT,
        Verdict(OutcomeClass.TIMED_OUT, "ran longer than its timeout of 21600 s", stop_task=True),
    ),
    "a task that may come after its timeout is stopped too": (
        running(),
        TIMED_OUT,
        Verdict(
            OutcomeClass.INTERRUPTED,
            "the task did not start within its timeout of 21600 s",
            stop_task=True,
        ),
    ),
    "a task that never reported, without a word": (
        running(),
        Evidence("JobStalled"),
        Verdict(OutcomeClass.INTERRUPTED, "the task never started", stop_task=True),
    ),
    "a cancel of it, without a word": (
        running(),
        Evidence("JobCancelled"),
        Verdict(OutcomeClass.CANCELLED, "JobCancelled", stop_task=True),
    ),
    "a silent runner is stopped as interrupted": (
        CUT_OFF,
        Evidence("JobStalled", "no report"),
        Verdict(OutcomeClass.INTERRUPTED, "no report", stop_task=True),
    ),
    "a cancel of it is a cancel": (
        CUT_OFF,
        Evidence("JobCancelled", "by hand"),
        Verdict(OutcomeClass.CANCELLED, "by hand", stop_task=True),
    ),
    "the lease of another": (
        CUT_OFF,
        Evidence("LeaseLost", "by another"),
        Verdict(OutcomeClass.SUPERSEDED, "by another"),
    ),
    "a refusal of a task that has registered was a lost answer": (
        STARTED,
        THROTTLED,
        Verdict(OutcomeClass.INTERRUPTED, IN_WORDS, stop_task=True),
    ),
    "without one it was a throttle": (
        running(),
        THROTTLED,
        Verdict(OutcomeClass.NOT_PLACED, IN_WORDS),
    ),
    "all that ECS says of the end of a task": (
        STARTED,
        failed(
            Containers=[{"Name": "job", "ExitCode": 137, "Reason": "OutOfMemoryError"}],
            StopCode="EssentialContainerExited",
            StoppedReason="Essential container in task exited",
        ),
        Verdict(
            OutcomeClass.OUT_OF_MEMORY,
            "exit code 137; OutOfMemoryError; EssentialContainerExited; "
            "Essential container in task exited",
        ),
    ),
    "a stop code alone": (
        STARTED,
        failed(Containers=[{"Name": "job"}], StopCode="UserInitiated"),
        Verdict(OutcomeClass.INTERRUPTED, "UserInitiated"),
    ),
    "an exit code alone": (
        STARTED,
        failed(Containers=[{"Name": "job", "ExitCode": 0}]),
        Verdict(OutcomeClass.FAILED, "exit code 0"),
    ),
    "an end without an exit code": (
        STARTED,
        failed(Containers=[]),
        Verdict(OutcomeClass.INTERRUPTED, "the task ended without an exit code"),
    ),
    "a job run with its state and details": (
        STARTED,
        job_run("FAILED", "lost"),
        Verdict(OutcomeClass.INTERRUPTED, "job run failed: lost"),
    ),
    "a job run without details": (
        STARTED,
        job_run("FAILED"),
        Verdict(OutcomeClass.INTERRUPTED, "job run failed"),
    ),
    **{
        f"a task of an attempt that committed is left to end at {error}": (
            COMMITTED,
            Evidence(error),
            Verdict(OutcomeClass.SUCCEEDED, "output committed"),
        )
        for error in (None, "JobCancelled", "States.Timeout", "ExecutionClosed")
    },
    # It speaks for itself, and what may still run is stopped.
    **{
        f"a recorded failure at {evidence.error}": (
            RECORDED,
            evidence,
            Verdict(OutcomeClass.FAILED, "a bad row", stop_task),
        )
        for evidence, stop_task in (
            (TIMED_OUT, True),
            (Evidence("JobStalled"), True),
            (Evidence("JobCancelled"), True),
            (Evidence("LeaseLost"), True),
            (Evidence("ExecutionClosed"), True),
            (failed(Containers=[{"ExitCode": 1}]), False),
        )
    },
}


@pytest.mark.parametrize("what", VERDICTS)
def test_verdict_says_what_ended_the_attempt_and_whether_its_task_is_stopped(what: str) -> None:
    row, evidence, verdict = VERDICTS[what]
    assert classify(row, evidence) == verdict


@pytest.mark.parametrize(
    ("row", "evidence", "kind", "said"),
    [
        pytest.param(on_emr(running()), STALLED, OutcomeClass.NOT_PLACED, "", id="job run"),
        pytest.param(on_emr(running()), TIMED_OUT, OutcomeClass.NOT_PLACED, "", id="its timeout"),
        pytest.param(ALONE, STALLED, OutcomeClass.NOT_PLACED, "", id="no executors"),
        pytest.param(
            changed(STARTED, progress_at=NOW + timedelta(seconds=21_000)),
            TIMED_OUT,
            OutcomeClass.INTERRUPTED,
            "nothing had moved for 600 s",
            id="a runner that waited",
        ),
        pytest.param(
            CUT_OFF,
            TIMED_OUT,
            OutcomeClass.INTERRUPTED,
            "its last report was long past",
            id="a runner that fell silent long before",
        ),
    ],
)
def test_what_waited_or_was_cut_off_is_stopped_and_says_why(
    row: Lease, evidence: Evidence, kind: OutcomeClass, said: str
) -> None:
    verdict = classify(row, evidence)
    assert (verdict.kind, verdict.stop_task) == (kind, True)
    assert said in verdict.detail


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
    for evidence in (failed(**given), Evidence(task=given)):
        attempt = with_task(running(), evidence).attempt
        assert (attempt.task_from, attempt.task_until) == paid


def test_a_sidecar_that_is_killed_makes_no_failure_of_a_task() -> None:
    job, sidecar = {"name": "job", "exitCode": 0}, {"name": "aws-guardduty", "exitCode": 137}
    for containers in ([job, sidecar], [sidecar, job]):
        assert _evidence_of({"containers": containers}).error is None


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


def test_error_text_is_cut_only_beyond_its_limit() -> None:
    assert shorten("x" * MAX_ERROR_CHARS) == "x" * MAX_ERROR_CHARS
    shown = shorten("x" * (MAX_ERROR_CHARS + 1))
    kept = shown.count("x")
    assert shown == f"{'x' * kept}… (and {MAX_ERROR_CHARS + 1 - kept} more characters)"
    assert MAX_ERROR_CHARS - 3 <= len(shown) <= MAX_ERROR_CHARS
