"""`ecs:runTask.sync` over the ECS fake, whose every call may fail and take its time."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.events import event
from tests.fakes import faults
from tests.fakes.aws import FakeAws
from tests.fakes.ecs import Failure
from tests.fakes.ecs_tasks import Task
from tests.fakes.service import Answer, Call, Proceed, RefusedError
from tests.fakes.shapes import checked
from tests.simulation.integration import Done, Failed, Submitted
from tests.simulation.run_task_sync import RunningTask, RunTaskSync, described
from tests.simulation.timeline import Timeline

PARAMETERS = {
    "Cluster": "Longhaul",
    "TaskDefinition": "Longhaul-small",
    "CapacityProviderStrategy": [{"CapacityProvider": "FARGATE_SPOT", "Weight": 1}],
    "NetworkConfiguration": {"AwsvpcConfiguration": {"Subnets": ["subnet-1"], "AssignPublicIp": "ENABLED"}},
    "Overrides": {"ContainerOverrides": [{"Name": "job", "Environment": [{"Name": "LONGHAUL_KEY", "Value": "k"}]}]},
}


class World:
    """`takes_s`: how long each call takes, half of it before its effect."""

    def __init__(self) -> None:
        self.takes_s = 0.0
        self.fail: Callable[[Call], Exception | None] = lambda _call: None
        self.aws = FakeAws(around=self._around)
        self.timeline = Timeline(self.aws.clock)
        self.ecs = self.aws.ecs
        self.ecs.create_cluster(clusterName="Longhaul")
        self.ecs.register_task_definition(family="Longhaul-small", containerDefinitions=[{"name": "job"}])
        self.service = RunTaskSync(self.timeline, self.ecs)
        self.service.told_after_s = lambda _task: 0
        self.told: list[Any] = []
        self.told_at: list[Any] = []

    def _around(self, call: Call, proceed: Proceed) -> Answer:
        self.timeline.sleep(self.takes_s / 2)
        error = self.fail(call)
        if error is not None:
            raise error
        answer = checked(call, proceed)
        self.timeline.sleep(self.takes_s / 2)
        return answer

    def call(self) -> RunningTask:
        def tell(what: Any) -> None:
            self.told.append(what)
            self.told_at.append(self.aws.clock.now())

        return self.service(PARAMETERS, tell)

    def run(self, seconds: float = 60) -> None:
        until = self.aws.clock.now() + timedelta(seconds=seconds)
        while self.timeline.step(until):
            pass

    @property
    def task(self) -> Task:
        (task,) = (task for cluster in self.ecs.clusters.values() for task in cluster.tasks.values())
        return task

    def end(self, exit_code: int | None = 0, stop_code: str = "EssentialContainerExited") -> None:
        self.ecs.end(self.task, stop_code=stop_code, reason="it is gone", exit_code=exit_code)

    @property
    def stops(self) -> list[Any]:
        return [call.arguments for call in self.aws.gate.calls if call.operation == "StopTask"]


@pytest.fixture
def world() -> World:
    return World()


def test_the_parameters_reach_ecs_in_its_own_spelling(world: World) -> None:
    world.call()
    world.run()
    (call,) = (call for call in world.aws.gate.calls if call.operation == "RunTask")
    assert call.arguments == {
        "cluster": "Longhaul",
        "taskDefinition": "Longhaul-small",
        "startedBy": "AWS Step Functions",
        "capacityProviderStrategy": [{"capacityProvider": "FARGATE_SPOT", "weight": 1}],
        "networkConfiguration": {"awsvpcConfiguration": {"subnets": ["subnet-1"], "assignPublicIp": "ENABLED"}},
        "overrides": {"containerOverrides": [{"name": "job", "environment": [{"name": "LONGHAUL_KEY", "value": "k"}]}]},
    }
    assert world.told == [Submitted()]


def test_the_state_succeeds_with_the_description_of_a_task_that_exited_with_0(world: World) -> None:
    world.call()
    world.run()
    world.end()
    world.run()
    assert world.told == [Submitted(), Done(described(world.task))]
    shown, example = world.told[1].output, event("settle", "exit-0")["task"]
    assert shown["StoppedAt"] == int(world.task.stopped_at.timestamp() * 1000)
    assert {name: shown[name] for name in ("StopCode", "StartedBy")} == {
        "StopCode": "EssentialContainerExited",
        "StartedBy": "AWS Step Functions",
    }
    # What Step Functions really sends has more than the fake knows, and the fake shows what the example leaves out.
    assert shown.keys() - example.keys() <= {"Overrides", "StoppingAt", "StartedAt"}
    assert shown["Containers"][0].items() >= {"Name": "job", "ExitCode": 0, "LastStatus": "STOPPED"}.items()


@pytest.mark.parametrize(
    ("exit_code", "stop_code"),
    [(1, "EssentialContainerExited"), (137, "UserInitiated"), (None, "TaskFailedToStart"), (None, "SpotInterruption")],
)
def test_any_other_end_fails_the_state_with_the_description_as_its_cause(
    world: World, exit_code: int | None, stop_code: str
) -> None:
    world.call()
    world.run()
    world.end(exit_code, stop_code)
    world.run()
    _, failed = world.told
    assert failed.error == "States.TaskFailed"
    assert json.loads(failed.cause) == described(world.task)


def test_what_step_functions_hears_of_a_task_is_the_worlds_to_say(world: World) -> None:
    world.service.description = lambda task: {**described(task), "Containers": []}
    world.call()
    world.run()
    world.end(None, "TaskFailedToStart")
    world.run()
    assert json.loads(world.told[1].cause)["Containers"] == []


def test_a_failure_in_the_answer_fails_the_state_with_the_answer(world: World) -> None:
    def refuse(_request: Any) -> None:
        raise Failure("RESOURCE:ENI")

    world.ecs.before_launch = refuse
    world.call()
    world.run()
    (failed,) = world.told
    assert failed.error == event("settle", "run-task-failures")["error"]["Error"]
    shown = json.loads(failed.cause)
    assert (shown["Failures"][0]["Reason"], shown["Tasks"]) == ("RESOURCE:ENI", [])


@pytest.mark.parametrize(
    ("refusal", "case"),
    [
        (RefusedError("ThrottlingException", "Rate exceeded"), "run-task-throttled"),
        (
            RefusedError(
                "InvalidParameterException",
                "Error retrieving security group information for [sg-0123456789abcdef0]: Rate exceeded",
            ),
            "run-task-throttled-in-disguise",
        ),
        (RefusedError("ClientException", "TaskDefinition is inactive"), "task-definition-inactive"),
    ],
)
def test_a_refusal_has_the_name_and_the_cause_of_the_events_that_settle_is_tested_with(
    world: World, refusal: RefusedError, case: str
) -> None:
    def refuse(_request: Any) -> None:
        raise refusal

    world.ecs.before_launch = refuse
    world.call()
    world.run()
    expected = event("settle", case)["error"]
    assert world.told == [Failed(expected["Error"], expected["Cause"])]


def test_an_answer_that_never_came_fails_the_state_though_the_task_may_run(world: World) -> None:
    world.fail = lambda call: faults.lost_answer(call) if call.operation == "RunTask" else None
    world.call()
    world.run()
    (failed,) = world.told
    assert failed.error == "ECS.SdkClientException"


def test_an_end_is_heard_of_later(world: World) -> None:
    world.service.told_after_s = lambda _task: 40
    world.call()
    world.run()
    world.end()
    ended = world.aws.clock.now()
    world.run()
    assert (world.told_at[-1] - ended).total_seconds() == 40


def test_a_task_that_ended_before_run_task_answered_is_heard_of(world: World) -> None:
    world.takes_s = 20
    world.call()
    world.run(15)
    world.end()
    assert world.told == []
    world.run()
    assert [type(what) for what in world.told] == [Submitted, Done]


def test_cancelling_stops_the_task_and_nothing_is_told_any_more(world: World) -> None:
    running = world.call()
    world.run()
    running.cancel()
    world.run()
    world.end(143, "UserInitiated")
    world.run()
    assert world.stops == [
        {"cluster": world.task.cluster_arn, "task": world.task.arn, "reason": "Stopped by AWS Step Functions"}
    ]
    assert world.told == [Submitted()]
    assert not world.service.waiting


def test_cancelling_while_run_task_is_on_its_way_stops_what_it_started(world: World) -> None:
    world.takes_s = 20
    running = world.call()
    world.run(15)
    running.cancel()
    assert world.stops == []
    world.run()
    assert [stop["task"] for stop in world.stops] == [world.task.arn]
    assert world.told == []


@pytest.mark.parametrize("fault", [faults.throttle, faults.unavailable, faults.lost_answer])
def test_a_stop_that_fails_is_left_at_that(world: World, fault: Callable[[Call], Exception]) -> None:
    world.fail = lambda call: fault(call) if call.operation == "StopTask" else None
    running = world.call()
    world.run()
    running.cancel()
    world.run()
    assert len(world.stops) == 1
    assert world.task.desired == "RUNNING"


def test_whether_a_cancelled_task_is_stopped_at_all_is_the_worlds_to_say(world: World) -> None:
    world.service.tries_to_stop = lambda: False
    running = world.call()
    world.run()
    running.cancel()
    world.run()
    assert world.stops == []


@pytest.mark.parametrize("operation", ["RunTask", "StopTask"])
def test_a_mistake_of_the_tests_own_is_no_fault_of_aws(world: World, operation: str) -> None:
    world.fail = lambda call: ZeroDivisionError() if call.operation == operation else None
    running = world.call()
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - it comes out wherever the process gets that far
        world.run()
        running.cancel()
        world.run()
