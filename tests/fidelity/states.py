"""Rules of Step Functions: how it runs a state machine, and tasks of ECS (`ecs:runTask.sync`)."""

import json
from collections.abc import Mapping
from typing import Any

from tests.contract.conftest import Aws
from tests.fidelity.ecs import CLUSTER, FAMILY, cluster, shown
from tests.fidelity.machines import CALL, RUN_TASK, Raises, execute
from tests.fidelity.rule import NOT_ASKED, Repair, Rules, recorded

CATCH = {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Done"}
DONE = {"Type": "Succeed"}
FAIL = {"Type": "Fail", "Error": "Bad", "Cause": "very"}
LONG = {"Type": "Wait", "Seconds": 600, "End": True}
ERRORS = "concepts-error-handling"
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


def branches(*states: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A Parallel state whose branches have one state each."""
    names = [f"Branch{n}" for n in range(len(states))]
    each = [
        {"StartAt": name, "States": {name: state}}
        for name, state in zip(names, states, strict=True)
    ]
    return {"Type": "Parallel", "Branches": each, **({"End": True} | more)}


@RULES.add(
    "FAILED: Bad, very", recorded("stepfunctions/v2/base/test_base.py::test_state_fail", "2024-03")
)
def error_and_cause_of_a_fail_state(aws: Aws) -> str:
    ended = execute(aws, {"Fail": FAIL}).described
    return f"{ended['status']}: {ended['error']}, {ended['cause']}"


@RULES.add(
    "States.DataLimitExceeded",
    recorded(
        "stepfunctions/v2/error_handling/test_states_errors.py::test_start_large_input",
        "2024-03",
    ),
)
def state_output_beyond_256_kib(aws: Aws) -> str:
    fill = {"Type": "Pass", "Result": "x" * 262_144, "ResultPath": "$.x", "End": True}
    return execute(aws, {"Pass": fill}, {}).end


@RULES.add(
    "caught",
    recorded(
        "stepfunctions/v2/error_handling/test_states_errors.py"
        "::test_service_task_lambada_catch_state_all_data_limit_exceeded_on_large_utf8_response",
        "2024-03",
    ),
    fake="States.DataLimitExceeded",
    embedded="States.DataLimitExceeded",
    why="AWS documents that `States.ALL` does not catch it, and was seen to catch it. The"
    " stricter reading ends the execution, which the sweeper repairs; our functions' results"
    " have some hundred bytes",
)
def task_result_beyond_256_kib_under_a_catch_of_all(aws: Aws) -> str:
    call = {**CALL, "Catch": [CATCH]}
    ended = execute(
        aws, {"Call": call, "Done": DONE}, {}, function=lambda _payload: {"x": "x" * 262_144}
    )
    return "caught" if ended.end == "SUCCEEDED" else ended.end


@RULES.add(
    "Broken: no luck",
    recorded(
        "stepfunctions/v2/error_handling/test_task_service_lambda.py::test_raise_exception_catch",
        "2024-11",
    ),
)
def error_of_a_function_that_raises(aws: Aws) -> str:
    call = {**CALL, "Catch": [CATCH]}
    ended = execute(
        aws, {"Call": call, "Done": DONE}, {}, function=lambda _: Raises("Broken", "no luck")
    )
    error = ended.output["error"]
    return f"{error['Error']}: {json.loads(error['Cause'])['errorMessage']}"


@RULES.add(
    "4 tries, then Broken",
    recorded(
        "stepfunctions/v2/scenarios/test_base_scenarios.py::test_lambda_service_invoke_with_retry_extended_input",
        "2023-10",
    ),
)
def tries_of_a_task_with_three_retries(aws: Aws) -> str:
    retry = {
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 1,
        "BackoffRate": 1,
        "MaxAttempts": 3,
        "MaxDelaySeconds": 2,
        "JitterStrategy": "FULL",
    }
    call = {**CALL, "Retry": [retry], "Catch": [CATCH]}
    ended = execute(aws, {"Call": call, "Done": DONE}, {}, function=lambda _: Raises("Broken"))
    return f"{len(ended.payloads)} tries, then {ended.output['error']['Error']}"


@RULES.add(
    '{"Cause": "", "Error": "States.Timeout"}',
    recorded(
        "stepfunctions/v2/error_handling/test_task_service_lambda.py::test_invoke_timeout",
        "2024-11",
    ),
)
def timeout_of_a_task_in_a_catch(aws: Aws) -> str:
    call = {**CALL, "TimeoutSeconds": 1, "Catch": [CATCH]}
    ended = execute(aws, {"Call": call, "Done": DONE}, {}, function=lambda _: None)
    return json.dumps(ended.output["error"], sort_keys=True)


@RULES.add(
    "late, soon",
    recorded(
        "stepfunctions/v2/scenarios/test_base_scenarios.py::test_parallel_state_order",
        "2023-12",
    ),
)
def order_of_the_outputs_of_branches(aws: Aws) -> str:
    wait = {"Type": "Wait", "Seconds": 1, "Next": "Late"}
    late = {"Type": "Pass", "Result": "late", "ResultPath": "$.b", "End": True}
    soon = {"Type": "Pass", "Result": "soon", "ResultPath": "$.b", "End": True}
    both = [
        {"StartAt": "Wait", "States": {"Wait": wait, "Late": late}},
        {"StartAt": "Soon", "States": {"Soon": soon}},
    ]
    ended = execute(aws, {"Both": {"Type": "Parallel", "Branches": both, "End": True}}, {})
    return ", ".join(each["b"] for each in ended.output)


@RULES.add(
    '{"Cause": "very", "Error": "Bad"}',
    recorded(
        "stepfunctions/v2/scenarios/test_base_scenarios.py::test_parallel_state_catch",
        "2023-12",
    ),
)
def error_of_a_branch_in_a_catch(aws: Aws) -> str:
    caught = branches(FAIL, Catch=[{"ErrorEquals": ["Bad"], "Next": "Done"}])
    return json.dumps(execute(aws, {"Both": caught, "Done": DONE}, {}).output, sort_keys=True)


@RULES.add(
    "x",
    recorded(
        "stepfunctions/v2/intrinsic_functions/test_generic.py::test_context_json_path",
        "2023-11",
    ),
)
def execution_name_in_the_context_object(aws: Aws) -> str:
    parameters = {"FunctionName": "f", "Payload": {"x.$": "$$.Execution.Name"}}
    return str(execute(aws, {"Call": {**CALL, "Parameters": parameters}}, {}).payloads[0]["x"])


@RULES.add("States.Timeout", "state-task")
def timeout_path_to_one_second(aws: Aws) -> str:
    return timeout_from_input(aws, 1)


def timeout_from_input(aws: Aws, timeout_s: object) -> str:
    call = {key: value for key, value in CALL.items() if key != "TimeoutSeconds"}
    states = {"Call": {**call, "TimeoutSecondsPath": "$.t"}}
    return execute(aws, states, {"t": timeout_s}, function=lambda _: None).end


def caught(aws: Aws, failing: dict[str, Any], *errors: str, **given: str) -> str:
    """The end of a Parallel state with a failing branch and one that waits."""
    catch = [{"ErrorEquals": list(errors), "ResultPath": "$.error", "Next": "Done"}]
    states = {"Both": branches(failing, LONG, Catch=catch), "Done": DONE}
    ended = execute(aws, states, given, function=lambda _: None)
    if ended.end == "SUCCEEDED":
        error = ended.output["error"]
        return f"caught {error['Error']}, {error['Cause']}"
    return ended.end


@RULES.add(
    "caught States.Timeout, ",
    ERRORS,
    fake=NOT_ASKED,
    why="The simulation's interpreter refuses a Catch that names an error of Step Functions,"
    " since Longhaul's definition has none",
    repair=Repair("sfn.errors", "States.Runtime"),
)
def timeout_of_a_branch_in_a_catch(aws: Aws) -> str:
    return caught(aws, {**CALL, "TimeoutSeconds": 1}, "States.Timeout")


@RULES.add("caught Bad, no luck", ERRORS)
def error_of_a_branch_with_a_cause_from_the_input(aws: Aws) -> str:
    fail = {"Type": "Fail", "Error": "Bad", "CausePath": "$.why"}
    return caught(aws, fail, "Worse", "Bad", why="no luck")


@RULES.add("States.Runtime", ERRORS)
def runtime_error_of_a_branch_under_a_catch_of_all(aws: Aws) -> str:
    return caught(aws, {"Type": "Wait", "SecondsPath": "$.why", "End": True}, "States.ALL", why="x")


# From a state to a task and back.


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
