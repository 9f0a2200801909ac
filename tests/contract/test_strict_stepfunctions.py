"""The strict Step Functions tells its engine and its listeners of starts and stops.

The rules of Step Functions stand in `tests/fidelity`.
"""

import pytest

from simulation.aws.cloud import FakeAws
from simulation.aws.stepfunctions.client import Execution, FakeStepFunctions
from tests.builders import MACHINE

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
