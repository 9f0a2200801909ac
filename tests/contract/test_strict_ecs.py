"""The strict ECS refuses what ECS refuses, and forgets stopped tasks."""

from collections.abc import Mapping
from typing import Any

import pytest

from simulation.aws.cloud import FakeAws
from simulation.aws.ecs.client import Failure, FakeEcs
from simulation.aws.ecs.tasks import Task
from tests.contract.refusals import refused

CLUSTER = "Longhaul"


@pytest.fixture
def ecs(fake: FakeAws) -> FakeEcs:
    fake.ecs.create_cluster(clusterName=CLUSTER)
    fake.ecs.register_task_definition(
        family="Longhaul-small", containerDefinitions=[{"name": "job", "image": "job"}]
    )
    return fake.ecs


def run(ecs: FakeEcs, **more: Any) -> dict[str, Any]:
    return dict(ecs.run_task(cluster=CLUSTER, taskDefinition="Longhaul-small", **more))


def launch(ecs: FakeEcs, **more: Any) -> Task:
    (started,) = run(ecs, **more)["tasks"]
    (cluster,) = ecs.clusters.values()
    return cluster.tasks[started["taskArn"]]


def environment(**variables: str) -> dict[str, Any]:
    variables_ = [{"name": name, "value": value} for name, value in variables.items()]
    return {"containerOverrides": [{"name": "job", "environment": variables_}]}


def test_task_runs_ends_and_is_missing_an_hour_later(fake: FakeAws, ecs: FakeEcs) -> None:
    task = launch(ecs, overrides=environment(LONGHAUL_KEY="main#a"), startedBy="AWS Step Functions")
    assert task.environment == {"LONGHAUL_KEY": "main#a"}
    ecs.run(task)
    fake.clock.advance(60)
    ecs.end(
        task,
        stop_code="EssentialContainerExited",
        reason="Essential container in task exited",
        exit_code=1,
    )
    (found,) = ecs.describe_tasks(cluster=CLUSTER, tasks=[task.arn])["tasks"]
    assert (found["lastStatus"], found["stopCode"], found["containers"][0]["exitCode"]) == (
        "STOPPED",
        "EssentialContainerExited",
        1,
    )
    fake.clock.advance(3600)
    response = ecs.describe_tasks(cluster=CLUSTER, tasks=[task.arn])
    assert response == {"tasks": [], "failures": [{"arn": task.arn, "reason": "MISSING"}]}
    with refused("InvalidParameterException", "The referenced task was not found."):
        ecs.stop_task(cluster=CLUSTER, task=task.arn)


def test_stop_sends_sigterm_and_then_sigkill(fake: FakeAws, ecs: FakeEcs) -> None:
    class Stubborn:
        def __init__(self) -> None:
            self.sigterms: list[Task] = []

        def launched(self, task: Task) -> None:
            ecs.run(task)

        def terminated(self, task: Task) -> None:
            self.sigterms.append(task)

    ecs.containers = stubborn = Stubborn()
    task = launch(ecs)
    ecs.stop_task(cluster=CLUSTER, task=task.arn, reason="Longhaul: stalled")
    ecs.stop_task(cluster=CLUSTER, task=task.arn, reason="again")
    assert stubborn.sigterms == [task]
    assert task.killed_at is not None
    assert (task.killed_at - fake.clock.now()).total_seconds() == 30
    ecs.end(task, stop_code="EssentialContainerExited", reason="exited", exit_code=75)
    assert (task.stop_code, task.stopped_reason, task.exit_code) == (
        "UserInitiated",
        "Longhaul: stalled",
        75,
    )


def test_tasks_are_listed_by_desired_status_and_family(ecs: FakeEcs) -> None:
    tasks = [launch(ecs) for _ in range(3)]
    ecs.stop_task(cluster=CLUSTER, task=tasks[0].arn)
    pages = list(
        ecs.get_paginator("list_tasks").paginate(
            cluster=CLUSTER, family="Longhaul-small", maxResults=1
        )
    )
    assert [page["taskArns"] for page in pages] == [[tasks[1].arn], [tasks[2].arn]]
    assert ecs.list_tasks(cluster=CLUSTER, desiredStatus="STOPPED")["taskArns"] == [tasks[0].arn]
    assert ecs.list_tasks(cluster=CLUSTER, startedBy="somebody")["taskArns"] == []


def test_missing_capacity_is_a_failure_in_the_response_and_no_error(ecs: FakeEcs) -> None:
    def none_left(_request: Mapping[str, Any]) -> None:
        raise Failure("Capacity is unavailable at this time. Please try again later")

    ecs.before_launch = none_left
    response = run(ecs)
    assert response["tasks"] == []
    assert [each["reason"] for each in response["failures"]] == [
        "Capacity is unavailable at this time. Please try again later"
    ]


def test_run_repeated_with_its_client_token_starts_no_task(fake: FakeAws, ecs: FakeEcs) -> None:
    first = launch(ecs, clientToken="t")
    assert launch(ecs, clientToken="t") is first
    fake.clock.advance(24 * 3600)
    assert launch(ecs, clientToken="t") is not first


@pytest.mark.parametrize(
    "arguments",
    [
        {"overrides": environment(X="x" * 8192)},
        {"startedBy": "x" * 129},
        {
            "launchType": "FARGATE",
            "capacityProviderStrategy": [{"capacityProvider": "FARGATE_SPOT"}],
        },
    ],
)
def test_invalid_run_is_refused(ecs: FakeEcs, arguments: dict[str, Any]) -> None:
    with refused("InvalidParameterException"):
        run(ecs, **arguments)


def test_family_runs_its_newest_active_revision(ecs: FakeEcs) -> None:
    container = {"name": "job", "image": "job"}
    newest = ecs.register_task_definition(family="Longhaul-small", containerDefinitions=[container])
    arn = newest["taskDefinition"]["taskDefinitionArn"]
    assert launch(ecs).definition.arn == arn
    ecs.deregister_task_definition(taskDefinition=arn)
    assert launch(ecs).definition.arn.endswith(":1")
    with refused("ClientException", "TaskDefinition is inactive"):
        ecs.run_task(cluster=CLUSTER, taskDefinition="Longhaul-small:2")
    with refused("ClientException"):
        ecs.run_task(cluster=CLUSTER, taskDefinition="Longhaul-huge")
    with refused("ClusterNotFoundException"):
        ecs.run_task(cluster="other", taskDefinition="Longhaul-small")
