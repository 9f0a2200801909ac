"""The change set of a rehearsal: what CloudFormation says of it, and that nothing stays."""

import json
import signal
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.cli.checks.finding import Finding, Level
from longhaul.cli.rehearsal import change_set
from longhaul.cli.rehearsal.change_set import Template
from longhaul.cli.target import Target
from simulation.aws.clock import VirtualClock
from tests.cli.rehearsal.conftest import AwsError, CloudFormation, Stubs

Warn = Callable[[str], None]
SMALL = Template({"Resources": {}}, "Longhaul", "eu-central-1", "aws")


def checked(
    target: Target, template: Template, clock: VirtualClock, warn: Warn = pytest.fail
) -> list[Finding]:
    return list(
        change_set.checked(
            target, template, bucket="cdk-assets", token="abc123", clock=clock, warn=warn
        )
    )


def of(found: list[Finding], level: Level) -> list[str]:
    return [each.what for each in found if each.level is level]


def test_a_change_set_of_a_new_stack_has_a_stack_of_its_own_and_leaves_nothing(
    target: Target,
    template: Template,
    stubs: Stubs,
    cloudformation: CloudFormation,
    clock: VirtualClock,
) -> None:
    found = checked(target, template, clock)

    assert {each.level for each in found} == {Level.OK}
    (created,) = stubs.named("cloudformation.CreateChangeSet")
    assert created["StackName"] == "Longhaul-rehearsal-abc123"
    assert created["ChangeSetType"] == "CREATE"
    # The usual template is too large for the call.
    (put,) = stubs.named("s3.PutObject")
    assert json.loads(put["Body"]) == template.content
    assert put["Key"] in created["TemplateURL"]
    assert not stubs.named("cloudformation.ExecuteChangeSet")
    assert cloudformation.is_clean


def test_a_small_template_goes_into_the_call_and_not_to_s3(
    target: Target, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    checked(target, SMALL, clock)

    (created,) = stubs.named("cloudformation.CreateChangeSet")
    assert created["TemplateBody"] == '{"Resources":{}}'
    assert not [name for name, _ in stubs.calls if name.startswith("s3.")]
    assert cloudformation.is_clean


def test_a_deployed_stack_keeps_its_name_and_itself(
    target: Target, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    cloudformation.stacks["Longhaul"] = "UPDATE_COMPLETE"
    cloudformation.changes = [
        {"ResourceChange": change}
        for change in (
            {"Action": "Modify", "Replacement": "False", "LogicalResourceId": "Role"},
            {
                "Action": "Modify",
                "Replacement": "True",
                "LogicalResourceId": "Jobs",
                "ResourceType": "AWS::SQS::Queue",
            },
        )
    ]

    found = checked(target, SMALL, clock)

    (created,) = stubs.named("cloudformation.CreateChangeSet")
    assert (created["StackName"], created["ChangeSetType"]) == ("Longhaul", "UPDATE")
    assert of(found, Level.WARNING) == ["resource Jobs: AWS::SQS::Queue would be replaced"]
    assert not stubs.named("cloudformation.DeleteStack")
    assert cloudformation.stacks == {"Longhaul": "UPDATE_COMPLETE"}
    assert cloudformation.is_clean


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS"])
def test_a_stack_that_was_never_made_is_left_alone(
    target: Target, cloudformation: CloudFormation, clock: VirtualClock, status: str
) -> None:
    cloudformation.stacks["Longhaul"] = status

    checked(target, SMALL, clock)

    assert cloudformation.stacks == {"Longhaul": status}
    assert not cloudformation.change_sets


@pytest.mark.parametrize("status", ["UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_FAILED"])
def test_a_stack_that_cannot_be_updated_now_is_not_asked(
    target: Target, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock, status: str
) -> None:
    cloudformation.stacks["Longhaul"] = status

    found = checked(target, SMALL, clock)

    assert [each.level for each in found] == [Level.SKIPPED]
    assert not stubs.named("cloudformation.CreateChangeSet")


def test_a_stack_that_is_deployed_as_it_is_is_no_problem(
    target: Target, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    cloudformation.stacks["Longhaul"] = "CREATE_COMPLETE"
    cloudformation.made = ["FAILED"]
    cloudformation.reason = (
        "The submitted information didn't contain changes. "
        "Submit different information to create a change set."
    )

    assert {each.level for each in checked(target, SMALL, clock)} == {Level.OK}


def test_what_cloudformation_finds_is_a_problem_or_a_warning_as_it_says(
    target: Target, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    cloudformation.made = ["FAILED"]
    cloudformation.reason = "The following validation failed: [AWS::EarlyValidation]"
    event = {"EventType": "VALIDATION_ERROR", "ValidationStatus": "FAILED"}
    cloudformation.events = [
        {
            **event,
            "ValidationName": "NAME_CONFLICT_VALIDATION",
            "ValidationFailureMode": "FAIL",
            "LogicalResourceId": "Jobs",
            "ValidationStatusReason": "it exists",
            "ValidationPath": "/Resources/Jobs/Properties/QueueName",
        },
        {
            **event,
            "ValidationName": "SERVICE_QUOTA",
            "ValidationFailureMode": "WARN",
            "ValidationStatusReason": "5 of 5 VPCs",
        },
        {
            **event,
            "ValidationName": "ANOTHER",
            "ValidationStatus": "SKIPPED",
            "ValidationStatusReason": "no right to read",
        },
        {
            "EventType": "HOOK_INVOCATION_ERROR",
            "HookType": "Company::Security::Hook",
            "HookFailureMode": "FAIL",
            "HookStatusReason": "buckets need a key",
            "LogicalResourceId": "Data",
        },
        {"EventType": "STACK_EVENT", "ResourceStatus": "CREATE_FAILED"},
    ]

    found = checked(target, SMALL, clock)

    assert of(found, Level.PROBLEM) == [
        "change set: FAILED: The following validation failed: [AWS::EarlyValidation]",
        "NAME_CONFLICT_VALIDATION of Jobs: it exists (/Resources/Jobs/Properties/QueueName)",
        "hook Company::Security::Hook of Data: buckets need a key",
    ]
    assert of(found, Level.WARNING) == ["SERVICE_QUOTA of the stack: 5 of 5 VPCs"]
    (skipped,) = of(found, Level.SKIPPED)
    assert skipped == "ANOTHER of the stack: CloudFormation skipped it: no right to read"
    assert cloudformation.is_clean


def test_hooks_that_a_deployment_would_meet_are_named(
    target: Target, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    cloudformation.hooks = [{"TypeName": "Company::Security::Hook", "FailureMode": "FAIL"}]

    (hook,) = of(checked(target, SMALL, clock), Level.WARNING)

    assert hook == "hook Company::Security::Hook: is asked at the deployment (failure mode FAIL)"


def test_a_template_that_cloudformation_refuses_is_a_problem_and_leaves_nothing(
    target: Target, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    def refuse(_: Mapping[str, Any]) -> Any:
        raise AwsError("ValidationError", "Template format error: Unresolved resource")

    stubs.answers["cloudformation.CreateChangeSet"] = refuse

    found = checked(target, SMALL, clock)

    assert "Unresolved resource" in of(found, Level.PROBLEM)[0]
    assert cloudformation.is_clean


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        ("CreateChangeSet", KeyboardInterrupt()),
        ("DescribeChangeSet", KeyboardInterrupt()),
        ("DescribeChangeSet", AwsError("AccessDenied")),
        ("DescribeEvents", KeyboardInterrupt()),
        ("DescribeEvents", AwsError("AccessDenied")),
    ],
)
def test_an_interrupted_rehearsal_leaves_nothing(
    target: Target,
    template: Template,
    stubs: Stubs,
    cloudformation: CloudFormation,
    clock: VirtualClock,
    operation: str,
    error: BaseException,
) -> None:
    usual = stubs.answers[f"cloudformation.{operation}"]

    def interrupted(given: Mapping[str, Any]) -> Any:
        usual(given)
        raise error

    stubs.answers[f"cloudformation.{operation}"] = interrupted

    with pytest.raises((KeyboardInterrupt, ClientError)):
        checked(target, template, clock)

    assert cloudformation.is_clean


def test_what_was_answered_before_a_right_is_missing_is_reported(
    target: Target, stubs: Stubs, clock: VirtualClock
) -> None:
    def deny(_: Mapping[str, Any]) -> Any:
        raise AwsError("AccessDenied", status=403)

    stubs.answers["cloudformation.DescribeEvents"] = deny
    answers = change_set.checked(
        target, SMALL, bucket="cdk-assets", token="abc123", clock=clock, warn=pytest.fail
    )

    assert [next(answers).what.partition(":")[0] for _ in range(2)] == ["change set", "removal"]
    with pytest.raises(ClientError):
        next(answers)


def test_a_second_interrupt_does_not_disturb_the_removal(
    target: Target, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    usual = stubs.answers["cloudformation.DeleteChangeSet"]

    def again(given: Mapping[str, Any]) -> Any:
        signal.raise_signal(signal.SIGINT)
        return usual(given)

    stubs.answers["cloudformation.DeleteChangeSet"] = again

    checked(target, SMALL, clock)

    assert cloudformation.is_clean


def test_what_cannot_be_removed_is_a_problem_with_the_command_that_removes_it(
    target: Target, template: Template, stubs: Stubs, clock: VirtualClock
) -> None:
    def refuse(_: Mapping[str, Any]) -> Any:
        raise AwsError("AccessDenied", "you may not")

    for name in ("cloudformation.DeleteStack", "s3.DeleteObject"):
        stubs.answers[name] = refuse

    warned: list[str] = []
    found = checked(target, template, clock, warned.append)

    (problem,) = [each for each in found if each.level is Level.PROBLEM]
    assert len(warned) == 2
    assert "aws cloudformation delete-stack --stack-name Longhaul-rehearsal-abc123" in problem.do
    assert "aws s3 rm s3://cdk-assets/rehearsal/rehearsal-abc123.json" in problem.do


def test_a_change_set_that_somebody_executes_meanwhile_is_not_taken_down(
    target: Target, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    def execute(_: Mapping[str, Any]) -> Any:
        cloudformation.stacks["Longhaul-rehearsal-abc123"] = "CREATE_IN_PROGRESS"
        return {"OperationEvents": []}

    stubs.answers["cloudformation.DescribeEvents"] = execute

    warned: list[str] = []
    checked(target, SMALL, clock, warned.append)

    assert "somebody has executed" in warned[0]
    assert not stubs.named("cloudformation.DeleteStack")


def test_a_change_set_that_takes_too_long_is_not_asked_and_removed_once_it_is_done(
    target: Target, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    cloudformation.made = ["CREATE_IN_PROGRESS"] * 250 + ["CREATE_COMPLETE"]

    found = checked(target, SMALL, clock)

    assert of(found, Level.SKIPPED) == ["change set: it was not done after 600 s"]
    assert cloudformation.is_clean


def test_what_the_caller_may_not_make_needs_no_removal(
    target: Target, template: Template, stubs: Stubs, clock: VirtualClock
) -> None:
    def deny(_: Mapping[str, Any]) -> Any:
        raise AwsError("AccessDenied", status=403)

    stubs.answers["s3.PutObject"] = deny
    with pytest.raises(ClientError):
        checked(target, template, clock)
    stubs.answers["cloudformation.CreateChangeSet"] = deny
    with pytest.raises(ClientError):
        checked(target, SMALL, clock)

    assert not [name for name, _ in stubs.calls if "Delete" in name]
