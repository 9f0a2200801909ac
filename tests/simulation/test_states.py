"""Executions of the real definition, with scripted functions and tasks."""

import json
import random
from datetime import timedelta
from typing import Any

import pytest

from infra.definition import definition
from tests.fakes.aws import FakeAws
from tests.simulation.run_task_sync import RunTaskSync
from tests.simulation.states import Done, Result, StatesEngine
from tests.simulation.timeline import Timeline

LAMBDA = "arn:aws:states:::lambda:invoke"
RUN_TASK = "arn:aws:states:::ecs:runTask.sync"
DEFINITION = json.dumps(
    definition(
        run_task={"Cluster": "Longhaul", "NetworkConfiguration": {"AwsvpcConfiguration": {"Subnets": ["subnet-1"]}}},
        task_families="Longhaul",
        heartbeat_arn="heartbeat",
        heartbeat_timeout_s=30,
        settle_arn="settle",
        settle_timeout_s=60,
        skip_wait_s=15,
        partition="aws",
    )
)
INPUT = {
    "key": "main#x",
    "run": "1",
    "attempt": "1",
    "capacity": "FARGATE",
    "size": "small",
    "timeout_s": 3600,
    "first_wait_s": 15,
}


class Nothing:
    def cancel(self) -> None: ...


@pytest.mark.parametrize(("exit_code", "outcome"), [(0, "SUCCEEDED"), (1, "RELEASED")])
def test_an_execution_runs_the_task_beats_and_settles(exit_code: int, outcome: str) -> None:
    aws = FakeAws()
    timeline = Timeline(aws.clock)
    aws.ecs.create_cluster(clusterName="Longhaul")
    aws.ecs.register_task_definition(family="Longhaul-small", containerDefinitions=[{"name": "job"}])
    arn = aws.stepfunctions.create_state_machine(name="L", definition=DEFINITION, roleArn="r")["stateMachineArn"]
    settled: list[Any] = []

    def invoke(parameters: dict[str, Any], done: Any) -> Nothing:
        def answer() -> Result:
            if parameters["FunctionName"] == "settle":
                settled.append(parameters["Payload"])
                return Done({"Payload": {"outcome": outcome}})
            return Done({"Payload": {"next": "end" if settled else "wait", "wait_s": 20, "cause": None}})

        done(answer())
        return Nothing()

    engine = StatesEngine(
        timeline, aws.stepfunctions, {LAMBDA: invoke, RUN_TASK: RunTaskSync(timeline, aws.ecs)}, random.Random(1)
    )
    aws.stepfunctions.engine = engine
    execution = aws.stepfunctions.start_execution(stateMachineArn=arn, name="x", input=json.dumps(INPUT))
    timeline.step(aws.clock.now() + timedelta(seconds=60))
    while not aws.gate.counts["ecs.RunTask"]:
        timeline.step(aws.clock.now() + timedelta(seconds=60))
    ((task,),) = (cluster.tasks.values() for cluster in aws.ecs.clusters.values())
    timeline.after(
        100, lambda: aws.ecs.end(task, stop_code="EssentialContainerExited", reason="gone", exit_code=exit_code)
    )
    while timeline.step(aws.clock.now() + timedelta(seconds=3600)):
        pass
    end = aws.stepfunctions.describe_execution(executionArn=execution["executionArn"])
    assert (end["status"], end.get("error")) == (("SUCCEEDED", None) if exit_code == 0 else ("FAILED", "RELEASED"))
    assert ("error" in settled[0]) is (exit_code != 0)
    assert not engine.runs
