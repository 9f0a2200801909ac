"""The change set of a rehearsal: what CloudFormation says of it, and that nothing stays."""

import signal
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.cli.checks.change_set import asked
from longhaul.cli.checks.finding import Finding, Level
from longhaul.cli.checks.plan import Plan
from longhaul.cli.terminal.output import Output
from simulation.aws.clock import VirtualClock
from tests.cli.change_set.conftest import AwsError, CloudFormation, Stubs

SMALL = '{"Resources":{}}'
BUCKET = "cdk-hnb659fds-assets-123456789012-eu-central-1"


def checked(plan: Plan, template: str, clock: VirtualClock) -> list[Finding]:
    return list(asked(plan, template, "abc123", clock, Output()))


def of(found: list[Finding], level: Level) -> list[str]:
    return [each.what for each in found if each.level is level]


def test_a_change_set_of_a_new_stack_has_a_stack_of_its_own_and_leaves_nothing(
    plan: Plan,
    template: str,
    stubs: Stubs,
    cloudformation: CloudFormation,
    clock: VirtualClock,
) -> None:
    found = checked(plan, template, clock)

    assert {each.level for each in found} == {Level.OK}
    (created,) = stubs.named("cloudformation.CreateChangeSet")
    assert created["StackName"] == "Longhaul-rehearsal-abc123"
    assert created["ChangeSetType"] == "CREATE"
    # The usual template is too large for the call.
    (put,) = stubs.named("s3.PutObject")
    assert (put["Bucket"], put["Body"]) == (BUCKET, template.encode())
    assert put["Key"] in created["TemplateURL"]
    assert not stubs.named("cloudformation.ExecuteChangeSet")
    assert cloudformation.is_clean


def test_a_small_template_goes_into_the_call_and_not_to_s3(
    plan: Plan, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    checked(plan, SMALL, clock)

    (created,) = stubs.named("cloudformation.CreateChangeSet")
    assert created["TemplateBody"] == '{"Resources":{}}'
    assert not [name for name, _ in stubs.calls if name.startswith("s3.")]
    assert cloudformation.is_clean


def test_a_deployed_stack_keeps_its_name_and_itself(
    plan: Plan, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock
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

    found = checked(plan, SMALL, clock)

    (created,) = stubs.named("cloudformation.CreateChangeSet")
    assert (created["StackName"], created["ChangeSetType"]) == ("Longhaul", "UPDATE")
    assert of(found, Level.WARNING) == ["resource Jobs: AWS::SQS::Queue would be replaced"]
    assert not stubs.named("cloudformation.DeleteStack")
    assert cloudformation.stacks == {"Longhaul": "UPDATE_COMPLETE"}
    assert cloudformation.is_clean


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS"])
def test_a_stack_that_was_never_made_is_left_alone(
    plan: Plan, cloudformation: CloudFormation, clock: VirtualClock, status: str
) -> None:
    cloudformation.stacks["Longhaul"] = status

    checked(plan, SMALL, clock)

    assert cloudformation.stacks == {"Longhaul": status}
    assert not cloudformation.change_sets


@pytest.mark.parametrize("status", ["UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_FAILED"])
def test_a_stack_that_cannot_be_updated_now_is_not_asked(
    plan: Plan, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock, status: str
) -> None:
    cloudformation.stacks["Longhaul"] = status

    found = checked(plan, SMALL, clock)

    assert [each.level for each in found] == [Level.SKIPPED]
    assert not stubs.named("cloudformation.CreateChangeSet")


def test_a_stack_that_is_deployed_as_it_is_is_no_problem(
    plan: Plan, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    cloudformation.stacks["Longhaul"] = "CREATE_COMPLETE"
    cloudformation.made = ["FAILED"]
    cloudformation.reason = (
        "The submitted information didn't contain changes. "
        "Submit different information to create a change set."
    )

    assert {each.level for each in checked(plan, SMALL, clock)} == {Level.OK}


def test_what_cloudformation_finds_is_a_problem_or_a_warning_as_it_says(
    plan: Plan, cloudformation: CloudFormation, clock: VirtualClock
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

    found = checked(plan, SMALL, clock)

    assert of(found, Level.PROBLEM) == [
        "change set: FAILED: The following validation failed: [AWS::EarlyValidation]",
        "NAME_CONFLICT_VALIDATION of Jobs: it exists (/Resources/Jobs/Properties/QueueName)",
        "hook Company::Security::Hook of Data: buckets need a key",
    ]
    assert of(found, Level.WARNING) == ["SERVICE_QUOTA of the stack: 5 of 5 VPCs"]
    (skipped,) = of(found, Level.SKIPPED)
    assert skipped == "ANOTHER of the stack: CloudFormation skipped it: no right to read"
    assert cloudformation.is_clean


def test_a_template_that_cloudformation_refuses_is_a_problem_and_leaves_nothing(
    plan: Plan, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    def refuse(_: Mapping[str, Any]) -> Any:
        raise AwsError("ValidationError", "Template format error: Unresolved resource")

    stubs.answers["cloudformation.CreateChangeSet"] = refuse

    found = checked(plan, SMALL, clock)

    assert "Unresolved resource" in of(found, Level.PROBLEM)[0]
    assert cloudformation.is_clean


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        ("CreateChangeSet", KeyboardInterrupt()),
        ("DescribeChangeSet", KeyboardInterrupt()),
        ("DescribeEvents", KeyboardInterrupt()),
    ],
)
def test_an_interrupted_rehearsal_leaves_nothing(
    plan: Plan,
    template: str,
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
        checked(plan, template, clock)

    assert cloudformation.is_clean


def deny(_: Mapping[str, Any]) -> Any:
    raise AwsError("AccessDenied", status=403)


def test_what_the_caller_may_not_ask_is_skipped_and_the_rest_is_reported(
    plan: Plan, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    stubs.answers["cloudformation.DescribeEvents"] = deny

    levels = [each.level for each in checked(plan, SMALL, clock)]

    assert levels == [Level.OK, Level.SKIPPED, Level.OK]
    assert cloudformation.is_clean


def test_a_second_interrupt_does_not_disturb_the_removal(
    plan: Plan, stubs: Stubs, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    usual = stubs.answers["cloudformation.DeleteChangeSet"]

    def again(given: Mapping[str, Any]) -> Any:
        signal.raise_signal(signal.SIGINT)
        return usual(given)

    stubs.answers["cloudformation.DeleteChangeSet"] = again

    checked(plan, SMALL, clock)

    assert cloudformation.is_clean


def test_what_cannot_be_removed_is_a_problem_with_the_command_that_removes_it(
    plan: Plan,
    template: str,
    stubs: Stubs,
    clock: VirtualClock,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(_: Mapping[str, Any]) -> Any:
        raise AwsError("AccessDenied", "you may not")

    for name in ("cloudformation.DeleteStack", "s3.DeleteObject"):
        stubs.answers[name] = refuse

    found = checked(plan, template, clock)

    (problem,) = [each for each in found if each.level is Level.PROBLEM]
    assert capsys.readouterr().err.count("could not be removed: ") == 2
    assert "aws cloudformation delete-stack --stack-name Longhaul-rehearsal-abc123" in problem.do
    assert f"aws s3 rm s3://{BUCKET}/rehearsal/rehearsal-abc123.json" in problem.do


def test_a_change_set_that_takes_too_long_is_not_asked_and_removed_once_it_is_done(
    plan: Plan, cloudformation: CloudFormation, clock: VirtualClock
) -> None:
    cloudformation.made = ["CREATE_IN_PROGRESS"] * 250 + ["CREATE_COMPLETE"]

    found = checked(plan, SMALL, clock)

    assert of(found, Level.SKIPPED) == ["change set: it was not done after 600 s"]
    assert cloudformation.is_clean


def test_what_the_caller_may_not_make_needs_no_removal(
    plan: Plan, template: str, stubs: Stubs, clock: VirtualClock
) -> None:
    stubs.answers["s3.PutObject"] = deny
    with pytest.raises(ClientError):
        checked(plan, template, clock)
    stubs.answers["cloudformation.CreateChangeSet"] = deny
    with pytest.raises(ClientError):
        checked(plan, SMALL, clock)

    assert not [name for name, _ in stubs.calls if "Delete" in name]
