"""Rules of Step Functions: `ecs:runTask.sync`, from a state to a task and back."""

import json
from collections.abc import Mapping
from typing import Any

from tests.contract.conftest import Aws
from tests.fidelity.ecs import CLUSTER, FAMILY, cluster, shown
from tests.fidelity.machines import RUN_TASK, execute
from tests.fidelity.rule import Repair, Rules
from tests.fidelity.states import DONE, branches

RUN: Mapping[str, Any] = {
    "Type": "Task",
    "Resource": RUN_TASK,
    "Parameters": {
        "Cluster": CLUSTER,
        "CapacityProviderStrategy": [{"CapacityProvider": "FARGATE", "Weight": 1}],
        "NetworkConfiguration": {"AwsvpcConfiguration": {"Subnets": ["subnet-1"]}},
        "TaskDefinition.$": "States.Format('{}', $.family)",
    },
    "TimeoutSeconds": 60,
    "End": True,
}
GIVEN = {"family": FAMILY}
SYNC = "connect-to-resource"
ECS = "connect-ecs"
RULES = Rules()


def arn_of_the_task(ecs: Any) -> str:
    """Of the only task."""
    (arn,) = {
        arn
        for status in ("RUNNING", "STOPPED")
        for arn in ecs.list_tasks(cluster=CLUSTER, desiredStatus=status)["taskArns"]
    }
    return str(arn)


@RULES.add(
    "States.TaskFailed: 3, EssentialContainerExited, AWS Step Functions, int",
    ECS,
    repair=Repair("sfn.parameters", "States.Runtime"),
)
def state_of_a_task_that_exits_with_3(aws: Aws) -> str:
    cluster(aws, 3)
    ended = execute(aws, {"Run": RUN}, GIVEN)
    if ended.end != "States.TaskFailed":
        return ended.end
    cause = json.loads(ended.described["cause"])
    told = cause["Containers"][0]["ExitCode"], cause["StopCode"], cause["StartedBy"]
    return f"{ended.end}: {', '.join(map(str, told))}, {type(cause['StoppedAt']).__name__}"


@RULES.add("SUCCEEDED, 0", ECS)
def state_of_a_task_that_exits_with_0(aws: Aws) -> str:
    cluster(aws, 0)
    ended = execute(aws, {"Run": RUN}, GIVEN)
    return f"{ended.end}, {ended.output['Containers'][0]['ExitCode']}"


@RULES.add("ECS.ClientException", ECS, repair=Repair("sfn.parameters", "States.Runtime"))
def run_of_an_unknown_family_in_a_catch(aws: Aws) -> str:
    cluster(aws)
    run = {**RUN, "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}]}
    ended = execute(aws, {"Run": run, "Caught": DONE}, {"family": "huge"})
    return str(ended.output["Error"]) if ended.end == "SUCCEEDED" else ended.end


@RULES.add("ABORTED, UserInitiated, Stopped by AWS Step Functions", SYNC)
def task_of_a_stopped_execution(aws: Aws) -> str:
    ecs = cluster(aws)
    ended = execute(aws, {"Run": RUN}, GIVEN, stopped_at="TaskSubmitted")
    stopped = shown(aws, ecs, arn_of_the_task(ecs))
    return f"{ended.end}, {stopped['stopCode']}, {stopped['stoppedReason']}"


@RULES.add("Stalled, Stopped by AWS Step Functions", SYNC)
def task_beside_a_branch_that_fails(aws: Aws) -> str:
    ecs = cluster(aws)
    ended = execute(aws, failing_branch(), GIVEN)
    stopped = shown(aws, ecs, arn_of_the_task(ecs))
    return f"{ended.output['error']['Error']}, {stopped['stoppedReason']}"


def failing_branch() -> dict[str, Any]:
    """States of which the first has a task and a branch that fails after three seconds."""
    both = branches(dict(RUN))
    states = {
        "Wait": {"Type": "Wait", "Seconds": 3, "Next": "Kill"},
        "Kill": {"Type": "Fail", "Error": "Stalled", "Cause": "no progress"},
    }
    both["Branches"].append({"StartAt": "Wait", "States": states})
    both["Catch"] = [{"ErrorEquals": ["Stalled"], "ResultPath": "$.error", "Next": "Done"}]
    return {"Both": both, "Done": DONE}


@RULES.add(
    "TaskStateEntered, TaskScheduled, TaskStarted, TaskSubmitted, TaskStateAborted",
    "API_HistoryEvent",
    embedded=(
        "TaskStateEntered, TaskScheduled, TaskStarted, TaskSubmitted",
        "TaskStateEntered, TaskScheduled, TaskStarted, TaskSubmitted, TaskSucceeded",
    ),
    why="moto has no aborted states, and may call a stopped task a success. Longhaul reads"
    " no histories",
)
def events_of_a_task_beside_a_branch_that_fails(aws: Aws) -> str:
    cluster(aws)
    ended = execute(aws, failing_branch(), GIVEN)
    return ", ".join(event for event in ended.events if event.startswith("Task"))


@RULES.add(
    ("States.Timeout, RUNNING", "States.Timeout, STOPPED"),
    SYNC,
    embedded="States.Timeout, RUNNING",
    why="AWS leaves it open. The embedded AWS is the stricter one, and the simulation plays both",
)
def task_after_the_timeout_of_its_state(aws: Aws) -> str:
    ecs = cluster(aws)
    run = {**RUN, "TimeoutSeconds": 3}
    ended = execute(aws, {"Run": run}, GIVEN)
    (found,) = ecs.describe_tasks(cluster=CLUSTER, tasks=[arn_of_the_task(ecs)])["tasks"]
    return f"{ended.end}, {found['desiredStatus']}"
