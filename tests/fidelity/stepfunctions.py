"""Rules of Step Functions: its API."""

from typing import Any

from tests.builders import MACHINE
from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.machines import ROLE_ARN
from tests.fidelity.rule import Rules, recorded

WAITING = '{"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 600, "End": true}}}'
START = "API_StartExecution"
TAKEN = "moto takes it. The fakes refuse it, and names and inputs are Longhaul's own"
RULES = Rules()


def machine(aws: Aws, definition: str = MACHINE) -> tuple[Any, str]:
    sfn = aws.client("stepfunctions")
    made = sfn.create_state_machine(name="Longhaul", definition=definition, roleArn=ROLE_ARN)
    return sfn, str(made["stateMachineArn"])


@RULES.add("InvalidName", START, embedded="ok", why=TAKEN)
def execution_name_with_a_hash_sign(aws: Aws) -> str:
    sfn, arn = machine(aws)
    return code_of(lambda: sfn.start_execution(stateMachineArn=arn, name="main#a", input="{}"))


@RULES.add("ValidationException", START, embedded="ok", why=TAKEN)
def execution_name_of_81_characters(aws: Aws) -> str:
    sfn, arn = machine(aws)
    return code_of(lambda: sfn.start_execution(stateMachineArn=arn, name="a" * 81, input="{}"))


@RULES.add("ValidationException", START, embedded="ok", why=TAKEN)
def execution_input_beyond_256_kib(aws: Aws) -> str:
    sfn, arn = machine(aws)
    return code_of(
        lambda: sfn.start_execution(stateMachineArn=arn, name="a", input=f'"{"x" * 262_143}"')
    )


@RULES.add("ExecutionAlreadyExists", START)
def execution_started_again_after_its_stop(aws: Aws) -> str:
    sfn, arn = machine(aws)
    started = sfn.start_execution(stateMachineArn=arn, name="a", input="{}")
    sfn.stop_execution(executionArn=started["executionArn"])
    return code_of(lambda: sfn.start_execution(stateMachineArn=arn, name="a", input="{}"))


@RULES.add(
    "the same",
    recorded("stepfunctions/v2/test_sfn_api.py::test_start_execution_idempotent", "2024-08"),
)
def execution_started_again_with_the_same_input_while_it_runs(aws: Aws) -> str:
    sfn, arn = machine(aws, WAITING)
    first = sfn.start_execution(stateMachineArn=arn, name="a", input="{}")
    again = sfn.start_execution(stateMachineArn=arn, name="a", input="{}")
    return "the same" if again["executionArn"] == first["executionArn"] else "another"


@RULES.add(
    "ExecutionAlreadyExists",
    recorded("stepfunctions/v2/test_sfn_api.py::test_start_execution_idempotent", "2024-08"),
)
def execution_started_again_with_other_input_while_it_runs(aws: Aws) -> str:
    sfn, arn = machine(aws, WAITING)
    sfn.start_execution(stateMachineArn=arn, name="a", input="{}")
    return code_of(lambda: sfn.start_execution(stateMachineArn=arn, name="a", input='{"b": 1}'))


@RULES.add(
    "ExecutionDoesNotExist",
    recorded(
        "stepfunctions/v2/test_sfn_api.py::test_describe_execution_no_such_state_machine",
        "2024-03",
    ),
)
def description_of_a_missing_execution(aws: Aws) -> str:
    sfn, arn = machine(aws)
    missing = arn.replace(":stateMachine:", ":execution:") + ":missing"
    return code_of(lambda: sfn.describe_execution(executionArn=missing))


@RULES.add("ExecutionAlreadyExists", START)
def execution_started_again_with_a_space_less_in_its_input(aws: Aws) -> str:
    sfn, arn = machine(aws, WAITING)
    sfn.start_execution(stateMachineArn=arn, name="a", input='{"b": 1}')
    return code_of(lambda: sfn.start_execution(stateMachineArn=arn, name="a", input='{"b":1}'))


@RULES.add("ABORTED: Operator, by hand", "API_StopExecution")
def description_of_a_stopped_execution(aws: Aws) -> str:
    sfn, arn = machine(aws, WAITING)
    started = sfn.start_execution(stateMachineArn=arn, name="a", input="{}")["executionArn"]
    sfn.stop_execution(executionArn=started, error="Operator", cause="by hand")
    shown = sfn.describe_execution(executionArn=started)
    return f"{shown['status']}: {shown.get('error')}, {shown.get('cause')}"


@RULES.add("first", "API_StopExecution")
def second_stop_of_an_execution(aws: Aws) -> str:
    sfn, arn = machine(aws, WAITING)
    started = sfn.start_execution(stateMachineArn=arn, name="a", input="{}")["executionArn"]
    sfn.stop_execution(executionArn=started, error="first")
    sfn.stop_execution(executionArn=started, error="second")
    return str(sfn.describe_execution(executionArn=started)["error"])


@RULES.add("d c, then b", "API_ListExecutions")
def executions_listed_by_status_and_in_pages(aws: Aws) -> str:
    sfn, arn = machine(aws, WAITING)
    started = []
    for name in ("a", "b", "c", "d"):
        answer = sfn.start_execution(stateMachineArn=arn, name=name, input="{}")
        started.append(answer["executionArn"])
        aws.clock.sleep(0.01)
    sfn.stop_execution(executionArn=started[0])
    pages = sfn.get_paginator("list_executions").paginate(
        stateMachineArn=arn, statusFilter="RUNNING", maxResults=2
    )
    return ", then ".join(" ".join(each["name"] for each in page["executions"]) for page in pages)
