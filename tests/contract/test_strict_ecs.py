"""What the strict ECS can be made to do.

The rules of ECS stand in `tests/fidelity`.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from simulation.aws.cloud import FakeAws
from simulation.aws.ecs.client import Failure, FakeEcs
from simulation.aws.ecs.tasks import Task
from simulation.aws.stepfunctions.client import Execution, FakeStepFunctions
from tests.builders import MACHINE

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


def test_missing_capacity_is_a_failure_in_the_response_and_no_error(ecs: FakeEcs) -> None:
    def none_left(_request: Mapping[str, Any]) -> None:
        raise Failure("Capacity is unavailable at this time. Please try again later")

    ecs.before_launch = none_left
    response = run(ecs)
    assert response["tasks"] == []
    assert [each["reason"] for each in response["failures"]] == [
        "Capacity is unavailable at this time. Please try again later"
    ]


# The strict Step Functions tells its engine and its listeners of starts and stops.
#
# The rules of Step Functions stand in `tests/fidelity`.


ROLE_ARN = "arn:aws:iam::123456789012:role/x"


@pytest.fixture
def sfn(fake: FakeAws) -> FakeStepFunctions:
    return fake.stepfunctions


@pytest.fixture
def machine(sfn: FakeStepFunctions) -> str:
    return str(
        sfn.create_state_machine(name="Longhaul", definition=MACHINE, roleArn=ROLE_ARN)[
            "stateMachineArn"
        ]
    )


class Recorder:
    """An engine that runs nothing and records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def started(self, execution: Execution) -> None:
        self.calls.append(("started", execution.name))

    def stopped(self, execution: Execution) -> None:
        self.calls.append(("stopped", execution.name))


def test_engine_sees_starts_and_stops_and_an_execution_ends_once(
    fake: FakeAws, sfn: FakeStepFunctions, machine: str
) -> None:
    engine, statuses = Recorder(), list[str]()
    sfn.engine = engine
    sfn.status_changed.append(
        lambda execution: statuses.append(f"{execution.name} {execution.status}")
    )
    a, b = (
        sfn.start_execution(stateMachineArn=machine, name=name, input="{}")["executionArn"]
        for name in ("a", "b")
    )
    sfn.start_execution(stateMachineArn=machine, name="a", input="{}")
    fake.clock.advance(60)
    sfn.stop_execution(executionArn=a, error="Operator", cause="by hand")
    sfn.close(sfn.executions[a], "SUCCEEDED")
    sfn.close(sfn.executions[b], "FAILED", error="RELEASED", cause="{}")
    sfn.stop_execution(executionArn=b)
    assert engine.calls == [("started", "a"), ("started", "b"), ("stopped", "a")]
    assert statuses == ["a RUNNING", "b RUNNING", "a ABORTED", "b FAILED"]
    stopped = sfn.describe_execution(executionArn=a)
    assert (stopped["status"], stopped["error"], stopped["stopDate"]) == (
        "ABORTED",
        "Operator",
        fake.clock.now(),
    )
