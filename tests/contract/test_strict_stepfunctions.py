"""The strict Step Functions refuses what Step Functions refuses."""

import json

import pytest

from tests.contract.refusals import refused
from tests.fakes.aws import FakeAws
from tests.fakes.stepfunctions import Execution, FakeStepFunctions

ROLE_ARN = "arn:aws:iam::123456789012:role/x"


@pytest.fixture
def sfn(fake: FakeAws) -> FakeStepFunctions:
    return fake.stepfunctions


@pytest.fixture
def machine(sfn: FakeStepFunctions) -> str:
    return str(sfn.create_state_machine(name="Longhaul", definition="{}", roleArn=ROLE_ARN)["stateMachineArn"])


class Recorder:
    """An engine that runs nothing."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def started(self, execution: Execution) -> None:
        self.told.append(("started", execution.name))

    def stopped(self, execution: Execution) -> None:
        self.told.append(("stopped", execution.name))


def test_one_name_and_one_input_are_one_execution_while_it_runs(
    fake: FakeAws, sfn: FakeStepFunctions, machine: str
) -> None:
    first = sfn.start_execution(stateMachineArn=machine, name="a", input='{"n": 1}')
    fake.clock.advance(3600)
    assert sfn.start_execution(stateMachineArn=machine, name="a", input='{"n": 1}') == first
    with refused("ExecutionAlreadyExists"):
        sfn.start_execution(stateMachineArn=machine, name="a", input='{"n":1}')  # other bytes
    sfn.stop_execution(executionArn=first["executionArn"])
    with refused("ExecutionAlreadyExists"):
        sfn.start_execution(stateMachineArn=machine, name="a", input='{"n": 1}')


@pytest.mark.parametrize(
    ("name", "code"),
    [("a" * 81, "ValidationException"), ("a b", "InvalidName"), ("main#1", "InvalidName"), ("a/b", "InvalidName")],
)
def test_invalid_names_are_refused(sfn: FakeStepFunctions, machine: str, name: str, code: str) -> None:
    with refused(code):
        sfn.start_execution(stateMachineArn=machine, name=name, input="{}")


def test_inputs_are_json_of_up_to_256_kib(sfn: FakeStepFunctions, machine: str) -> None:
    with refused("InvalidExecutionInput"):
        sfn.start_execution(stateMachineArn=machine, name="a", input="{")
    with refused("ValidationException"):
        sfn.start_execution(stateMachineArn=machine, name="a", input=json.dumps("x" * 262_143))
    sfn.start_execution(stateMachineArn=machine, name="a" * 80, input=json.dumps("x" * 262_142))


def test_what_is_not_there_is_an_error(sfn: FakeStepFunctions, machine: str) -> None:
    with refused("StateMachineDoesNotExist"):
        sfn.start_execution(stateMachineArn=machine + "x", name="a", input="{}")
    with refused("ExecutionDoesNotExist"):
        sfn.describe_execution(executionArn=machine.replace("stateMachine", "execution") + ":a")


def test_an_engine_is_told_of_starts_and_stops_and_ends_executions_once(
    fake: FakeAws, sfn: FakeStepFunctions, machine: str
) -> None:
    engine, statuses = Recorder(), list[str]()
    sfn.engine = engine
    sfn.status_changed.append(lambda execution: statuses.append(f"{execution.name} {execution.status}"))
    a, b = (sfn.start_execution(stateMachineArn=machine, name=name, input="{}")["executionArn"] for name in ("a", "b"))
    sfn.start_execution(stateMachineArn=machine, name="a", input="{}")
    fake.clock.advance(60)
    sfn.stop_execution(executionArn=a, error="Operator", cause="by hand")
    sfn.close(sfn.executions[a], "SUCCEEDED")
    sfn.close(sfn.executions[b], "FAILED", error="RELEASED", cause="{}")
    sfn.stop_execution(executionArn=b)
    assert engine.told == [("started", "a"), ("started", "b"), ("stopped", "a")]
    assert statuses == ["a RUNNING", "b RUNNING", "a ABORTED", "b FAILED"]
    stopped = sfn.describe_execution(executionArn=a)
    assert (stopped["status"], stopped["error"], stopped["stopDate"]) == ("ABORTED", "Operator", fake.clock.now())


def test_executions_are_listed_newest_first_by_status_and_page(sfn: FakeStepFunctions, machine: str) -> None:
    for name in ("a", "b", "c", "d"):
        sfn.start_execution(stateMachineArn=machine, name=name, input="{}")
    sfn.stop_execution(executionArn=next(iter(sfn.executions)))
    pages = sfn.get_paginator("list_executions").paginate(stateMachineArn=machine, statusFilter="RUNNING", maxResults=2)
    assert [[each["name"] for each in page["executions"]] for page in pages] == [["d", "c"], ["b"]]
