"""The strict Step Functions refuses what Step Functions refuses."""

import json

import pytest

from simulation.aws.cloud import FakeAws
from simulation.aws.stepfunctions.client import Execution, FakeStepFunctions
from tests.builders import MACHINE
from tests.contract.refusals import refused

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


def test_repeated_start_is_the_same_execution_while_it_runs_with_that_input(
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


@pytest.mark.parametrize("name", ["a b", "a/b"])
def test_invalid_name_is_refused(sfn: FakeStepFunctions, machine: str, name: str) -> None:
    with refused("InvalidName"):
        sfn.start_execution(stateMachineArn=machine, name=name, input="{}")


def test_input_must_be_json_of_at_most_256_kib(sfn: FakeStepFunctions, machine: str) -> None:
    with refused("InvalidExecutionInput"):
        sfn.start_execution(stateMachineArn=machine, name="a", input="{")
    with refused("ValidationException"):
        sfn.start_execution(stateMachineArn=machine, name="a", input=json.dumps("x" * 262_143))
    sfn.start_execution(stateMachineArn=machine, name="a" * 80, input=json.dumps("x" * 262_142))


def test_missing_machine_or_execution_is_an_error(sfn: FakeStepFunctions, machine: str) -> None:
    with refused("StateMachineDoesNotExist"):
        sfn.start_execution(stateMachineArn=machine + "x", name="a", input="{}")
    with refused("ExecutionDoesNotExist"):
        sfn.describe_execution(executionArn=machine.replace("stateMachine", "execution") + ":a")


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


def test_executions_are_listed_newest_first_by_status_in_pages(
    sfn: FakeStepFunctions, machine: str
) -> None:
    for name in ("a", "b", "c", "d"):
        sfn.start_execution(stateMachineArn=machine, name=name, input="{}")
    sfn.stop_execution(executionArn=next(iter(sfn.executions)))
    pages = sfn.get_paginator("list_executions").paginate(
        stateMachineArn=machine, statusFilter="RUNNING", maxResults=2
    )
    assert [[each["name"] for each in page["executions"]] for page in pages] == [["d", "c"], ["b"]]
