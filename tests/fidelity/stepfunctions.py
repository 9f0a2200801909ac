"""Rules of Step Functions: its API."""

from typing import Any

from tests.builders import MACHINE
from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.machines import ROLE_ARN
from tests.fidelity.rule import Probe, Rules, recorded

WAITING = '{"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 600, "End": true}}}'
START = "API_StartExecution"
TAKEN = "moto takes it. The fakes refuse it, and names and inputs are Longhaul's own"
RULES = Rules()


def machine(aws: Aws, definition: str = MACHINE) -> tuple[Any, str]:
    sfn = aws.client("stepfunctions")
    made = sfn.create_state_machine(name="Longhaul", definition=definition, roleArn=ROLE_ARN)
    return sfn, str(made["stateMachineArn"])


def start(sfn: Any, arn: str, name: str = "a", given: str = "{}") -> str:
    return code_of(lambda: sfn.start_execution(stateMachineArn=arn, name=name, input=given))


def started(name: str = "a", given: str = "{}") -> Probe:
    return lambda aws: start(*machine(aws), name, given)


def started_again(first: str, again: str) -> Probe:
    """Starts an execution while one of its name runs, with these inputs."""

    def probe(aws: Aws) -> str:
        sfn, arn = machine(aws, WAITING)
        start(sfn, arn, given=first)
        return start(sfn, arn, given=again)

    return probe


IDEMPOTENT = recorded(
    "stepfunctions/v2/test_sfn_api.py::test_start_execution_idempotent", "2024-08"
)
EXISTS = "ExecutionAlreadyExists"
RULES.row(
    "execution name with a hash sign",
    started("main#a"),
    "InvalidName",
    START,
    embedded="ok",
    why=TAKEN,
)
RULES.row(
    "execution name of 81 characters",
    started("a" * 81),
    "ValidationException",
    START,
    embedded="ok",
    why=TAKEN,
)
RULES.row(
    "execution input beyond 256 kib",
    started(given=f'"{"x" * 262_143}"'),
    "ValidationException",
    START,
    embedded="ok",
    why=TAKEN,
)
RULES.row(
    "execution started again with the same input while it runs",
    started_again("{}", "{}"),
    "ok",
    IDEMPOTENT,
)
RULES.row(
    "execution started again with other input while it runs",
    started_again("{}", '{"b": 1}'),
    EXISTS,
    IDEMPOTENT,
)
RULES.row(
    "execution started again with a space less in its input",
    started_again('{"b": 1}', '{"b":1}'),
    EXISTS,
    START,
)


@RULES.add("ExecutionAlreadyExists", START)
def execution_started_again_after_its_stop(aws: Aws) -> str:
    sfn, arn = machine(aws)
    started = sfn.start_execution(stateMachineArn=arn, name="a", input="{}")
    sfn.stop_execution(executionArn=started["executionArn"])
    return code_of(lambda: sfn.start_execution(stateMachineArn=arn, name="a", input="{}"))


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


@RULES.add("ABORTED: Operator, by hand", "API_StopExecution")
def description_of_an_execution_stopped_twice(aws: Aws) -> str:
    sfn, arn = machine(aws, WAITING)
    started = sfn.start_execution(stateMachineArn=arn, name="a", input="{}")["executionArn"]
    sfn.stop_execution(executionArn=started, error="Operator", cause="by hand")
    sfn.stop_execution(executionArn=started, error="second")
    shown = sfn.describe_execution(executionArn=started)
    return f"{shown['status']}: {shown.get('error')}, {shown.get('cause')}"


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
