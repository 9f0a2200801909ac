"""`ports.Tasks` on ECS. On the strict fake alone: moto stops no task that it did not start, and starts none without a network."""

from dataclasses import replace

import pytest

from longhaul.adapters.ecs_tasks import EcsTasks
from longhaul.domain.outcome import OutcomeClass, classify
from longhaul.ports import StoppedTask
from tests.builders import NOW, running
from tests.fakes.aws import FakeAws
from tests.fakes.ecs_tasks import Task

STARTED = replace(running(), progress_at=NOW)
CLUSTER = "arn:aws:ecs:us-east-1:123456789012:cluster/Longhaul"


@pytest.fixture
def tasks(fake: FakeAws) -> EcsTasks:
    fake.ecs.create_cluster(clusterName="Longhaul")
    container = {"name": "job", "image": "job", "stopTimeout": 120}
    fake.ecs.register_task_definition(family="Longhaul-small", containerDefinitions=[container])
    return EcsTasks(fake.client("ecs"), CLUSTER)


@pytest.fixture
def task(fake: FakeAws, tasks: EcsTasks) -> Task:  # noqa: ARG001 - its cluster
    (started,) = fake.ecs.run_task(cluster=CLUSTER, taskDefinition="Longhaul-small")["tasks"]
    task = fake.ecs.clusters[CLUSTER].tasks[started["taskArn"]]
    fake.ecs.run(task)
    return task


def described(fake: FakeAws, task: Task) -> dict[str, object]:
    (found,) = fake.ecs.describe_tasks(cluster=CLUSTER, tasks=[task.arn])["tasks"]
    return dict(found)


def test_a_stopped_task_has_its_stop_timeout_and_is_then_killed(fake: FakeAws, tasks: EcsTasks, task: Task) -> None:
    assert tasks.stop(task.arn, "Longhaul: stalled " + "x" * 300) == StoppedTask(is_gone=False)
    assert described(fake, task)["desiredStatus"] == "STOPPED"
    fake.clock.advance(119)
    assert described(fake, task)["lastStatus"] == "RUNNING"
    fake.clock.advance(1)
    ended = described(fake, task)
    assert (ended["lastStatus"], ended["stopCode"]) == ("STOPPED", "UserInitiated")
    assert str(ended["stoppedReason"]).startswith("Longhaul: stalled xxx")


def test_stopping_a_task_that_has_ended_is_no_error_however_long_ago(
    fake: FakeAws, tasks: EcsTasks, task: Task
) -> None:
    fake.ecs.end(task, stop_code="EssentialContainerExited", reason="Essential container in task exited", exit_code=0)
    tasks.stop(task.arn, "Longhaul: cancelled")
    assert described(fake, task)["stopCode"] == "EssentialContainerExited"
    fake.clock.advance(3600)
    assert tasks.stop(task.arn, "Longhaul: cancelled") == StoppedTask(is_gone=True)
    assert tasks.stop("arn:aws:ecs:us-east-1:123456789012:task/Longhaul/none", "Longhaul: cancelled").is_gone


def test_stopping_a_task_that_has_ended_by_itself_tells_how(fake: FakeAws, tasks: EcsTasks, task: Task) -> None:
    fake.ecs.end(task, stop_code="InfrastructureHealth", reason="The underlying infrastructure is unhealthy.")
    ended = tasks.stop(task.arn, "Longhaul: stalled").ended_as
    assert ended is not None
    assert classify(STARTED, ended).kind is OutcomeClass.INTERRUPTED


@pytest.mark.parametrize(
    ("exit_code", "kind"), [(0, OutcomeClass.NO_OUTPUT), (1, OutcomeClass.FAILED), (65, OutcomeClass.PERMANENT)]
)
def test_an_exit_code_is_told_too(
    fake: FakeAws, tasks: EcsTasks, task: Task, exit_code: int, kind: OutcomeClass
) -> None:
    fake.ecs.end(task, stop_code="EssentialContainerExited", reason="It exited", exit_code=exit_code)
    ended = tasks.stop(task.arn, "Longhaul: timed_out").ended_as
    assert ended is not None
    assert classify(STARTED, ended).kind is kind


def test_a_task_that_we_stopped_ourselves_tells_nothing(fake: FakeAws, tasks: EcsTasks, task: Task) -> None:
    tasks.stop(task.arn, "Longhaul: stalled")
    fake.clock.advance(120)
    assert described(fake, task)["lastStatus"] == "STOPPED"
    assert tasks.stop(task.arn, "Longhaul: stalled") == StoppedTask(is_gone=True)
