"""`cloudformation.unsupported` and `sfn.templates`: the resources of a template."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.core.config import default_user_config

from longhaul.local.moto_repairs import (
    cloudformation as cloudformation_repairs,
)
from longhaul.local.moto_repairs import (
    events as events_repairs,
)
from longhaul.local.moto_repairs import (
    sfn as sfn_repairs,
)
from tests.local.support import Moto

ALARM = {"Type": "AWS::CloudWatch::Alarm", "Properties": {}}
UNKNOWN = {"Type": "AWS::Somewhere::Else", "Properties": {}}


def create(moto: Moto, resources: dict[str, Any]) -> str:
    client = moto.client("cloudformation")
    client.create_stack(StackName="tiny", TemplateBody=json.dumps({"Resources": resources}))
    return str(client.describe_stacks(StackName="tiny")["Stacks"][0]["StackStatus"])


def test_resource_that_would_do_nothing_is_skipped(moto: Moto) -> None:
    cloudformation_repairs.unsupported(moto.patches)

    assert create(moto, {"Alarm": ALARM}) == "CREATE_COMPLETE"


@pytest.mark.filterwarnings("ignore:Tried to parse AWS")
def test_unknown_resource_fails_the_stack(moto: Moto, *, repaired: bool) -> None:
    if repaired:
        cloudformation_repairs.unsupported(moto.patches)
        with pytest.raises(
            ClientError, match="AWS::Somewhere::Else is not made by the embedded AWS"
        ):
            create(moto, {"Unknown": UNKNOWN})
    else:
        assert create(moto, {"Unknown": UNKNOWN}) == "CREATE_COMPLETE"


def test_state_machine_of_a_template_is_one_that_can_be_executed(
    moto: Moto, *, repaired: bool
) -> None:
    if repaired:
        sfn_repairs.templates(moto.patches)
    else:
        moto.patches.replace_item(
            default_user_config, "stepfunctions", {"execute_state_machine": True}
        )
    machine = {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {
            "StateMachineName": "machine",
            "RoleArn": "arn:aws:iam::123456789012:role/any",
            "DefinitionString": (
                '{"StartAt": "Pass", "States": '
                '{"Pass": {"Type": "Pass", "Result": "hello", "End": true}}}'
            ),
        },
    }
    create(moto, {"Machine": machine})
    client = moto.client("stepfunctions")

    machines = client.list_state_machines()["stateMachines"]

    assert [found["name"] for found in machines] == (["machine"] if repaired else [])
    if repaired:
        client.start_execution(stateMachineArn=machines[0]["stateMachineArn"])


@pytest.mark.filterwarnings("ignore:Tried to parse AWS")
def test_a_schedule_of_a_template_is_made_with_its_arn(moto: Moto, *, repaired: bool) -> None:
    if repaired:
        events_repairs.scheduler(moto.patches)
    target = {"Arn": "arn:aws:sqs:us-east-1:123456789012:jobs", "RoleArn": "role", "Input": "{}"}
    schedule = {
        "Type": "AWS::Scheduler::Schedule",
        "Properties": {
            "Name": "nightly",
            "ScheduleExpression": "cron(30 2 * * ? *)",
            "ScheduleExpressionTimezone": "Europe/Berlin",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": target,
        },
    }
    create(moto, {"Nightly": schedule})
    made = moto.client("scheduler").list_schedules()["Schedules"]
    assert [each["Name"] for each in made] == (["nightly"] if repaired else [])
    if repaired:
        answer = moto.client("scheduler").get_schedule(Name="nightly")
        assert answer["ScheduleExpressionTimezone"] == "Europe/Berlin"
        assert answer["Target"]["Input"] == "{}"
