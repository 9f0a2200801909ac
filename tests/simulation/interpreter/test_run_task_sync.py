"""`ecs:runTask.sync` over the ECS fake, whose calls may fail and take time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simulation.aws.cloud import FakeAws
from simulation.aws.ecs.client import Task
from simulation.aws.platform.timeline import Timeline
from simulation.aws.service import (
    Answer,
    Call,
    Proceed,
    RefusedError,
    lost_answer,
    throttle,
    unavailable,
)
from simulation.aws.shapes import checked
from simulation.aws.stepfunctions.interpreter import Done, Failed, Submitted
from simulation.aws.stepfunctions.sync import Running, RunTaskSync
from tests.events import event

PARAMETERS = {
    "Cluster": "Longhaul",
    "TaskDefinition": "Longhaul-small",
    "CapacityProviderStrategy": [{"CapacityProvider": "FARGATE_SPOT", "Weight": 1}],
    "NetworkConfiguration": {
        "AwsvpcConfiguration": {"Subnets": ["subnet-1"], "AssignPublicIp": "ENABLED"}
    },
    "Overrides": {
        "ContainerOverrides": [
            {"Name": "job", "Environment": [{"Name": "LONGHAUL_KEY", "Value": "k"}]}
        ]
    },
}


class World:
    """`takes_s`: the duration of each call, half of it before its effect."""

    def __init__(self) -> None:
        self.takes_s = 0.0
        self.fail: Callable[[Call], Exception | None] = lambda _call: None
        self.aws = FakeAws(around=self._around)
        self.timeline = Timeline(self.aws.clock)
        self.ecs = self.aws.ecs
        self.ecs.create_cluster(clusterName="Longhaul")
        self.ecs.register_task_definition(
            family="Longhaul-small", containerDefinitions=[{"name": "job"}]
        )
        self.service = RunTaskSync(self.timeline, self.ecs)
        self.service.told_after_s = lambda _task: 0
        self.told: list[Any] = []

    def _around(self, call: Call, proceed: Proceed) -> Answer:
        self.timeline.sleep(self.takes_s / 2)
        error = self.fail(call)
        if error is not None:
            raise error
        answer = checked(call, proceed)
        self.timeline.sleep(self.takes_s / 2)
        return answer

    def call(self) -> Running[Task]:
        return self.service(PARAMETERS, self.told.append)

    def run(self, seconds: float = 60) -> None:
        until = self.aws.clock.now() + timedelta(seconds=seconds)
        while self.timeline.step(until):
            pass

    @property
    def task(self) -> Task:
        (task,) = (
            task for cluster in self.ecs.clusters.values() for task in cluster.tasks.values()
        )
        return task

    def end(self, exit_code: int | None = 0, stop_code: str = "EssentialContainerExited") -> None:
        self.ecs.end(self.task, stop_code=stop_code, reason="it is gone", exit_code=exit_code)

    @property
    def stops(self) -> list[Any]:
        return [call.arguments for call in self.aws.gate.calls if call.operation == "StopTask"]


@pytest.fixture
def world() -> World:
    return World()


def test_state_succeeds_with_the_description_of_a_task_that_exited_with_0(world: World) -> None:
    world.call()
    world.run()
    world.end()
    world.run()
    assert world.told == [Submitted(), Done(world.service.description(world.task))]
    shown, example = world.told[1].output, event("settle", "exit-0")["task"]
    assert datetime.fromtimestamp(shown["StoppedAt"] / 1000, UTC) == world.task.stopped_at
    assert {name: shown[name] for name in ("StopCode", "StartedBy")} == {
        "StopCode": "EssentialContainerExited",
        "StartedBy": "AWS Step Functions",
    }
    # Step Functions sends more than the fake knows, and the example leaves some fields out.
    assert shown.keys() - example.keys() <= {"Overrides", "StoppingAt", "StartedAt"}
    assert (
        shown["Containers"][0].items()
        >= {"Name": "job", "ExitCode": 0, "LastStatus": "STOPPED"}.items()
    )


@pytest.mark.parametrize(
    ("refusal", "case"),
    [
        (RefusedError("ThrottlingException", "Rate exceeded"), "run-task-throttled"),
        (
            RefusedError(
                "InvalidParameterException",
                "Error retrieving security group information for [sg-0123456789abcdef0]:"
                " Rate exceeded",
            ),
            "run-task-throttled-in-disguise",
        ),
        (RefusedError("ClientException", "TaskDefinition is inactive"), "task-definition-inactive"),
    ],
)
def test_refusal_has_the_name_and_cause_of_settles_event_files(
    world: World, refusal: RefusedError, case: str
) -> None:
    def refuse(_request: Any) -> None:
        raise refusal

    world.ecs.before_launch = refuse
    world.call()
    world.run()
    expected = event("settle", case)["error"]
    assert world.told == [Failed(expected["Error"], expected["Cause"])]


def test_lost_answer_fails_the_state_although_the_task_may_run(world: World) -> None:
    world.fail = lambda call: lost_answer(call) if call.operation == "RunTask" else None
    world.call()
    world.run()
    (failed,) = world.told
    assert failed.error == "ECS.SdkClientException"


def test_cancel_before_run_tasks_answer_stops_the_task_that_it_started(world: World) -> None:
    world.takes_s = 20
    running = world.call()
    world.run(15)
    running.cancel()
    assert world.stops == []
    world.run()
    assert [stop["task"] for stop in world.stops] == [world.task.arn]
    assert world.told == []


@pytest.mark.parametrize("fault", [throttle, unavailable, lost_answer])
def test_failed_stop_is_not_repeated(world: World, fault: Callable[[Call], Exception]) -> None:
    world.fail = lambda call: fault(call) if call.operation == "StopTask" else None
    running = world.call()
    world.run()
    running.cancel()
    world.run()
    assert len(world.stops) == 1
    assert world.task.desired == "RUNNING"
