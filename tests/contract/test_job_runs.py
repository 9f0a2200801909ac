"""`ports.Tasks` on EMR Serverless, and on both engines at once; moto with its job runs repaired stands for AWS."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from local.emr_driver import JobRunObserver, JobRunSpec
from local.moto_repairs import emr_job_runs
from local.moto_repairs.patching import Patches
from longhaul.adapters.emr_job_runs import EmrJobRuns
from longhaul.adapters.engine_tasks import EngineTasks
from longhaul.domain.job_run import name_of, reference
from longhaul.domain.lease import AttemptId
from longhaul.ports import RunningTask, StoppedTask

ROLE = "arn:aws:iam::123456789012:role/job"
ATTEMPT = AttemptId("main#flights/2013-01", 1767323045000, 2)
FARGATE_TASK = "arn:aws:ecs:us-east-1:123456789012:task/Longhaul/0123"


class Driver:
    """Runs nothing, and says that it runs."""

    def run(self, spec: JobRunSpec, observer: JobRunObserver) -> None:
        del spec
        observer.started()

    def cancel(self, arn: str) -> None:
        """Moto's record says CANCELLING from now on."""


@pytest.fixture
def emr() -> Iterator[Any]:
    patches = Patches()
    emr_job_runs.apply(patches, Driver())
    with mock_aws():
        yield boto3.client("emr-serverless", region_name="us-east-1")
    patches.undo()


@pytest.fixture
def application(emr: Any) -> dict[str, Any]:
    made: dict[str, Any] = emr.create_application(
        name="jobs", releaseLabel='emr-6.6.0" "', type="SPARK", clientToken="t"
    )
    return made


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
    return str(emr.get_job_run(applicationId=application["applicationId"], jobRunId=run)["jobRun"]["state"])


def test_job_runs_are_found_with_the_attempts_that_their_names_say(emr: Any, application: dict[str, Any]) -> None:
    start(emr, application, name_of(ATTEMPT))
    start(emr, application, "somebody's own")

    found = list(EmrJobRuns(emr, application["arn"]).running())

    assert found == [RunningTask(reference(application["arn"], ATTEMPT), ATTEMPT)]


def test_a_stop_cancels_the_attempts_job_run_and_no_other(emr: Any, application: dict[str, Any]) -> None:
    ours = start(emr, application, name_of(ATTEMPT))
    other = start(emr, application, name_of(AttemptId(ATTEMPT.key, ATTEMPT.run, 3)))
    tasks = EmrJobRuns(emr, application["arn"])

    assert not tasks.stop(reference(application["arn"], ATTEMPT), "Longhaul: stalled").is_gone

    assert (state_of(emr, application, ours), state_of(emr, application, other)) == ("CANCELLING", "RUNNING")
    assert [task.attempt.attempt for task in tasks.running()] == [3]


def test_stopping_what_has_ended_or_never_was_is_no_error(emr: Any, application: dict[str, Any]) -> None:
    start(emr, application, name_of(ATTEMPT))
    tasks = EmrJobRuns(emr, application["arn"])
    tasks.stop(reference(application["arn"], ATTEMPT), "")

    assert not tasks.stop(reference(application["arn"], ATTEMPT), "").is_gone  # CANCELLING: its driver may work
    assert tasks.stop(reference(application["arn"], AttemptId("main#none", 1, 1)), "").is_gone


class Fargate:
    def __init__(self) -> None:
        self.stopped: list[str] = []

    def running(self) -> Iterator[RunningTask]:
        yield RunningTask(FARGATE_TASK, AttemptId("main#small", 1, 1))

    def stop(self, task_arn: str, reason: str) -> StoppedTask:
        self.stopped.append(f"{task_arn} {reason}")
        return StoppedTask(is_gone=False)


def test_with_two_engines_all_tasks_are_seen_and_each_is_stopped_on_its_own(
    emr: Any, application: dict[str, Any]
) -> None:
    run = start(emr, application, name_of(ATTEMPT))
    fargate = Fargate()
    tasks = EngineTasks(fargate=fargate, emr_serverless=EmrJobRuns(emr, application["arn"]))

    found = list(tasks.running())
    for task in found:
        tasks.stop(task.arn, "x")

    assert [task.attempt.key for task in found] == ["main#small", ATTEMPT.key]
    assert fargate.stopped == [f"{FARGATE_TASK} x"]
    assert state_of(emr, application, run) == "CANCELLING"
