"""`ports.Tasks` on ECS. On the strict fake alone: moto stops no task that it did not start, and starts none without a network."""

import pytest

from longhaul.adapters.ecs_tasks import EcsTasks
from tests.fakes.aws import FakeAws
from tests.fakes.ecs_tasks import Task

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
    tasks.stop(task.arn, "Longhaul: stalled " + "x" * 300)
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
    tasks.stop(task.arn, "Longhaul: cancelled")
    tasks.stop("arn:aws:ecs:us-east-1:123456789012:task/Longhaul/none", "Longhaul: cancelled")
