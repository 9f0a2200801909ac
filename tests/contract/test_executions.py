"""`ports.Executions` on Step Functions, whose StartExecution is the probe for a living execution."""

import json
from datetime import timedelta

import pytest

from longhaul.adapters.sfn_executions import SfnExecutions
from tests.contract.conftest import Aws
from tests.fakes.aws import FakeAws

DEFINITION = json.dumps({"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}}})
ROLE_ARN = "arn:aws:iam::123456789012:role/x"


@pytest.fixture
def executions(aws: Aws) -> SfnExecutions:
    client = aws.client("stepfunctions")
    machine = client.create_state_machine(name="Longhaul", definition=DEFINITION, roleArn=ROLE_ARN)
    return SfnExecutions(client, machine["stateMachineArn"])


def test_an_execution_is_started_once_however_often_it_is_asked_for(executions: SfnExecutions) -> None:
    assert executions.status("job-1-1") is None
    assert executions.ensure_started("job-1-1", '{"a": 1}') is None
    assert executions.ensure_started("job-1-1", '{"a": 1}') is None
    assert executions.status("job-1-1") == "RUNNING"


def test_an_execution_that_runs_with_another_input_runs(aws: Aws, executions: SfnExecutions) -> None:
    executions.ensure_started("job-1-1", '{"a": 1}')
    assert executions.ensure_started("job-1-1", '{"a": 2}') is None
    described = aws.client("stepfunctions").describe_execution(executionArn=executions.arn("job-1-1"))
    assert described["input"] == '{"a": 1}'


def test_a_closed_execution_is_not_started_again(aws: Aws, executions: SfnExecutions) -> None:
    executions.ensure_started("job-1-1", "{}")
    aws.client("stepfunctions").stop_execution(executionArn=executions.arn("job-1-1"))
    assert executions.ensure_started("job-1-1", "{}") == "ABORTED"
    assert executions.status("job-1-1") == "ABORTED"


def test_a_name_is_free_again_ninety_days_after_the_close(fake: FakeAws) -> None:
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
