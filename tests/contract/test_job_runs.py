"""`ports.Tasks` on EMR Serverless, and on both engines at once.

AWS is moto with the repair of its job runs.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.backends import get_backend

from longhaul.core.lease import AttemptId
from longhaul.core.ports import RunningTask
from longhaul.core.verdict import StoppedTask
from longhaul.engines.emr_serverless.ends import name_of, reference
from longhaul.engines.emr_serverless.tasks import EmrJobRuns
from longhaul.engines.tasks import AllTasks
from longhaul.local.emr_driver import JobRunEnd, JobRunSpec
from longhaul.local.moto_repairs import emr as emr_repairs
from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.supervised import Observer
from simulation.aws.cloud import FakeAws
from simulation.aws.emr_serverless.client import Application, FakeEmrServerless, JobRun
from tests.contract.moto_account import moto_account

ROLE = "arn:aws:iam::123456789012:role/job"
ATTEMPT = AttemptId("main#flights/2013-01", 1767323045000, 2)
FARGATE_TASK = "arn:aws:ecs:us-east-1:123456789012:task/Longhaul/0123"


class Driver:
    """Reports a start and runs nothing."""

    def run(self, spec: JobRunSpec, observer: Observer[JobRunEnd]) -> None:
        del spec
        observer.started(datetime.now(UTC))

    def stop(self, arn: str, _reason: str) -> None:
        """Do nothing: moto has set its record to CANCELLING."""


@pytest.fixture
def emr() -> Iterator[Any]:
    patches = Patches()
    driver: Any = Driver()
    emr_repairs.job_runs(patches, driver)
    with moto_account() as client:
        yield client("emr-serverless")
    patches.undo()


@pytest.fixture
def application(emr: Any) -> dict[str, Any]:
    return emr.create_application(
        name="jobs", releaseLabel='emr-6.6.0" "', type="SPARK", clientToken="t"
    )


def start(emr: Any, application: dict[str, Any], name: str) -> str:
    return str(
        emr.start_job_run(
            applicationId=application["applicationId"],
            clientToken=name.replace(" ", "-").replace("#", ".").replace("/", "."),
            executionRoleArn=ROLE,
            jobDriver={"sparkSubmit": {"entryPoint": "s3://assets/job.py"}},
            name=name,
        )["jobRunId"]
    )


def state_of(emr: Any, application: dict[str, Any], run: str) -> str:
    return str(
        emr.get_job_run(applicationId=application["applicationId"], jobRunId=run)["jobRun"]["state"]
    )


def test_job_runs_are_listed_with_the_attempts_in_their_names(
    emr: Any, application: dict[str, Any]
) -> None:
    start(emr, application, name_of(ATTEMPT))
    start(emr, application, "of another user")

    found = list(EmrJobRuns(emr, application["arn"]).running())

    assert found == [RunningTask(reference(application["arn"], ATTEMPT), ATTEMPT)]


# Those of EMR Serverless's reference; moto goes through three of them.
@pytest.mark.parametrize(
    ("state", "is_running", "is_gone"),
    [
        ("SUBMITTED", True, False),
        ("QUEUED", True, False),
        ("PENDING", True, False),
        ("SCHEDULED", True, False),
        ("RUNNING", True, False),
        ("CANCELLING", False, False),
        ("CANCELLED", False, True),
        ("SUCCESS", False, True),
        ("FAILED", False, True),
    ],
)
def test_a_job_run_is_listed_until_it_ends_and_gone_when_it_has(
    emr: Any, application: dict[str, Any], state: str, *, is_running: bool, is_gone: bool
) -> None:
    start(emr, application, name_of(ATTEMPT))
    backend = get_backend("emr-serverless")["123456789012"]["us-east-1"]
    (run,) = backend.job_runs[application["applicationId"]]
    run.state = state
    tasks = EmrJobRuns(emr, application["arn"])
    assert bool(list(tasks.running())) == is_running
    assert tasks.stop("", ATTEMPT, "x").is_gone == is_gone


def test_stop_cancels_the_job_run_of_the_attempt_and_no_other(
    emr: Any, application: dict[str, Any]
) -> None:
    ours = start(emr, application, name_of(ATTEMPT))
    other = start(emr, application, name_of(AttemptId(ATTEMPT.key, ATTEMPT.run, 3)))
    tasks = EmrJobRuns(emr, application["arn"])

    assert not tasks.stop("", ATTEMPT, "Longhaul: stalled").is_gone

    assert (state_of(emr, application, ours), state_of(emr, application, other)) == (
        "CANCELLING",
        "RUNNING",
    )
    assert [task.attempt.attempt for task in tasks.running()] == [3]


def test_stop_of_an_ended_or_unknown_job_run_is_no_error(
    emr: Any, application: dict[str, Any]
) -> None:
    start(emr, application, name_of(ATTEMPT))
    tasks = EmrJobRuns(emr, application["arn"])
    tasks.stop("", ATTEMPT, "")

    # CANCELLING: its driver may still work.
    assert not tasks.stop("", ATTEMPT, "").is_gone
    assert tasks.stop("", AttemptId("main#none", 1, 1), "").is_gone


class Fargate:
    def __init__(self) -> None:
        self.stopped: list[str] = []

    def running(self) -> Iterator[RunningTask]:
        yield RunningTask(FARGATE_TASK, AttemptId("main#small", 1, 1))

    def stop(self, task_arn: str, _attempt: AttemptId, reason: str) -> StoppedTask:
        self.stopped.append(f"{task_arn} {reason}")
        return StoppedTask(is_gone=False)


def test_tasks_of_two_engines_are_listed_together_and_each_is_stopped_on_its_engine(
    emr: Any, application: dict[str, Any]
) -> None:
    run = start(emr, application, name_of(ATTEMPT))
    fargate = Fargate()
    tasks = AllTasks({"fargate": fargate, "emr-serverless": EmrJobRuns(emr, application["arn"])})

    found = list(tasks.running())
    for task in found:
        tasks.stop(task.arn, ATTEMPT, "x")

    assert [task.attempt.key for task in found] == ["main#small", ATTEMPT.key]
    assert fargate.stopped == [f"{FARGATE_TASK} x"]
    assert state_of(emr, application, run) == "CANCELLING"


def test_what_ran_on_an_engine_that_the_stack_no_longer_has_is_gone() -> None:
    assert AllTasks({"emr-serverless": Fargate()}).stop(FARGATE_TASK, ATTEMPT, "x") == StoppedTask(
        True
    )


# What the strict EMR Serverless refuses. Its answers and arguments are those of the model.


SECOND = AttemptId("main#j", 1767323045000, 2)


@pytest.fixture
def strict(fake: FakeAws) -> FakeEmrServerless:
    found: FakeEmrServerless = fake.client("emr-serverless")
    return found


@pytest.fixture
def room(strict: FakeEmrServerless) -> Application:
    id_ = strict.create_application(
        name="jobs",
        releaseLabel="emr-spark-8.0.0",
        type="SPARK",
        clientToken="t",
        maximumCapacity={"cpu": "64 vCPU", "memory": "512 GB"},
    )["applicationId"]
    return strict.applications[id_]


def run_on(
    strict: FakeEmrServerless, room: Application, name: str, number: int = 0, **more: Any
) -> JobRun:
    id_ = strict.start_job_run(
        applicationId=room.id,
        clientToken=f"token-{number}",
        executionRoleArn=ROLE,
        jobDriver={"sparkSubmit": {"entryPoint": "s3://assets/job.py", **more}},
        name=name,
    )["jobRunId"]
    return room.runs[id_]


def test_a_token_gives_one_job_run_also_when_that_has_ended(
    strict: FakeEmrServerless, room: Application
) -> None:
    run = run_on(strict, room, "one")
    strict.end(run, "SUCCESS")

    assert run_on(strict, room, "one") is run
    with pytest.raises(ClientError, match="ConflictException"):
        run_on(strict, room, "another")


def test_a_job_run_is_cancelling_until_it_ends_and_an_ended_one_cannot_be_cancelled(
    strict: FakeEmrServerless, room: Application
) -> None:
    run = run_on(strict, room, "one")
    ids = {"applicationId": room.id, "jobRunId": run.id}
    strict.move(run, "RUNNING")
    strict.cancel_job_run(**ids)
    strict.move(run, "RUNNING")  # it is not any more

    assert strict.get_job_run(**ids)["jobRun"]["state"] == "CANCELLING"
    strict.end(run, "SUCCESS")
    assert strict.get_job_run(**ids)["jobRun"]["state"] == "SUCCESS"
    with pytest.raises(ClientError, match="ValidationException"):
        strict.cancel_job_run(**ids)


@pytest.mark.parametrize(
    "parameters", ["--conf spark.master=local", "--jars s3://a/b.jar", "--conf a='b c'"]
)
def test_options_that_emr_does_not_take_are_refused(
    strict: FakeEmrServerless, room: Application, parameters: str
) -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        run_on(strict, room, "one", sparkSubmitParameters=parameters)


def test_a_stopping_application_takes_no_job_run(
    strict: FakeEmrServerless, room: Application
) -> None:
    room.state = "STOPPING"
    with pytest.raises(ClientError, match="ConflictException"):
        run_on(strict, room, "one")


def test_a_longer_time_than_seven_days_is_refused(
    strict: FakeEmrServerless, room: Application
) -> None:
    with pytest.raises(ClientError, match="executionTimeoutMinutes"):
        strict.start_job_run(
            applicationId=room.id,
            clientToken="t",
            executionRoleArn=ROLE,
            jobDriver={"sparkSubmit": {"entryPoint": "s3://assets/job.py"}},
            executionTimeoutMinutes=10_081,
        )


def test_tasks_of_emr_serverless_find_and_stop_job_runs_page_by_page(
    strict: FakeEmrServerless, room: Application
) -> None:
    strict.page_size = 1
    runs = [
        run_on(strict, room, name_of(AttemptId("main#j", 1767323045000, n)), number=n)
        for n in range(4)
    ]
    strict.move(runs[2], "RUNNING")
    strict.end(runs[0], "FAILED", "gone")
    tasks = EmrJobRuns(strict, room.arn)

    assert {task.attempt.attempt for task in tasks.running()} == {1, 2, 3}
    assert not tasks.stop("", SECOND, "stalled").is_gone
    assert [run.state for run in runs] == ["FAILED", "SUBMITTED", "CANCELLING", "SUBMITTED"]
    strict.end(runs[2], "CANCELLED")
    assert tasks.stop("", SECOND, "stalled").is_gone
