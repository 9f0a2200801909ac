"""`ports.Executions` on Step Functions. StartExecution probes for a running execution."""

import json
from datetime import timedelta

import pytest

from longhaul.core.executions import SfnExecutions
from simulation.aws.cloud import FakeAws
from tests.contract.conftest import Aws

DEFINITION = json.dumps(
    {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}}}
)
ROLE_ARN = "arn:aws:iam::123456789012:role/x"


@pytest.fixture
def executions(aws: Aws) -> SfnExecutions:
    client = aws.client("stepfunctions")
    machine = client.create_state_machine(name="Longhaul", definition=DEFINITION, roleArn=ROLE_ARN)
    return SfnExecutions(client, machine["stateMachineArn"])


def test_repeated_start_starts_one_execution(
    executions: SfnExecutions,
) -> None:
    assert executions.status("job-1-1") is None
    assert executions.ensure_started("job-1-1", '{"a": 1}') is None
    assert executions.ensure_started("job-1-1", '{"a": 1}') is None
    assert executions.status("job-1-1") == "RUNNING"


def test_start_with_another_input_leaves_the_running_execution_alone(
    aws: Aws, executions: SfnExecutions
) -> None:
    executions.ensure_started("job-1-1", '{"a": 1}')
    assert executions.ensure_started("job-1-1", '{"a": 2}') is None
    described = aws.client("stepfunctions").describe_execution(
        executionArn=executions.arn("job-1-1")
    )
    assert described["input"] == '{"a": 1}'


def test_closed_execution_is_not_started_again(aws: Aws, executions: SfnExecutions) -> None:
    executions.ensure_started("job-1-1", "{}")
    aws.client("stepfunctions").stop_execution(executionArn=executions.arn("job-1-1"))
    assert executions.ensure_started("job-1-1", "{}") == "ABORTED"
    assert executions.status("job-1-1") == "ABORTED"


def test_execution_name_is_free_ninety_days_after_the_close(fake: FakeAws) -> None:
    sfn = fake.stepfunctions
    machine = sfn.create_state_machine(name="Longhaul", definition=DEFINITION, roleArn=ROLE_ARN)
    executions = SfnExecutions(fake.client("stepfunctions"), machine["stateMachineArn"])
    executions.ensure_started("job-1-1", "{}")
    fake.clock.advance(timedelta(days=100).total_seconds())
    sfn.stop_execution(executionArn=executions.arn("job-1-1"))
    fake.clock.advance(timedelta(days=89).total_seconds())
    assert executions.status("job-1-1") == "ABORTED"
    fake.clock.advance(timedelta(days=1).total_seconds())
    assert executions.status("job-1-1") is None
    assert executions.ensure_started("job-1-1", "{}") is None
