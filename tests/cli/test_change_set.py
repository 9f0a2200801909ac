"""`longhaul check --change-set`: what CloudFormation says of it, and that nothing stays."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from typer.testing import Result

from longhaul.cli.checks.finding import Finding, ok, problem
from longhaul.cli.commands import check
from longhaul.config.project_file import VARIABLE
from simulation.aws.console import FakeCloudFormation
from simulation.aws.service import Call, Proceed, client_error
from tests.cli.conftest import World

TEMPLATE = json.dumps({"Resources": {}})
BUCKET = "cdk-hnb659fds-assets-123456789012-us-east-1"
Run = Callable[..., Result]


@pytest.fixture
def found() -> list[Finding]:
    """What the checks of the deployment find."""
    return [ok("bootstrap: it is prepared")]


@pytest.fixture
def run(bare: World, found: list[Finding], monkeypatch: pytest.MonkeyPatch) -> Run:
    bare.aws.s3.create_bucket(Bucket=BUCKET)
    monkeypatch.setenv(VARIABLE, "")  # the command sets it; restored with the test
    monkeypatch.setattr(check, "_template", lambda *_: TEMPLATE)
    monkeypatch.setattr("longhaul.cli.checks.listed.of_deployment", lambda _: iter(found))
    monkeypatch.setattr("time.sleep", bare.clock.sleep)
    return partial(bare.run, "check", "--change-set")


@pytest.fixture
def cloudformation(bare: World) -> FakeCloudFormation:
    return bare.aws.cloudformation


def is_clean(cloudformation: FakeCloudFormation) -> bool:
    """Whether nothing but deployed stacks is left."""
    statuses = {each.status for each in cloudformation.stacks.values()}
    return not cloudformation.change_sets and "REVIEW_IN_PROGRESS" not in statuses


def test_of_a_new_stack_it_has_a_stack_of_its_own_and_leaves_nothing(
    run: Run, bare: World, cloudformation: FakeCloudFormation
) -> None:
    done = run(says="of the stack Longhaul-rehearsal-")
    assert "ok  bootstrap: it is prepared\n" in done.stdout
    assert "ok  change set: 0 resources" in done.stdout
    (created,) = [each for each in bare.aws.gate.calls if each.operation == "CreateChangeSet"]
    (key,) = bare.aws.s3.buckets[BUCKET].objects
    assert created.arguments["TemplateURL"].endswith(f"/{key}")
    assert "cloudformation.ExecuteChangeSet" not in bare.aws.gate.counts
    assert is_clean(cloudformation)


def test_of_a_deployed_stack_it_says_what_would_be_lost(
    run: Run, bare: World, cloudformation: FakeCloudFormation
) -> None:
    bare.deploy()
    resource = {"LogicalResourceId": "Jobs", "ResourceType": "AWS::SQS::Queue"}
    cloudformation.changes = [
        {"ResourceChange": {"Action": "Modify", "Replacement": replaced, **resource}}
        for replaced in ("False", "True")
    ]
    said = "!!  resource Jobs: AWS::SQS::Queue would be removed or replaced"
    assert run().stdout.count(said) == 1
    assert list(cloudformation.stacks) == ["Longhaul"]
    assert is_clean(cloudformation)


def test_what_cloudformation_finds_is_a_problem_or_a_warning_as_it_says(
    run: Run, cloudformation: FakeCloudFormation
) -> None:
    cloudformation.statuses = ["FAILED"]
    cloudformation.reason = "The following validation failed: [AWS::EarlyValidation]"
    cloudformation.events = [
        {
            "EventType": "VALIDATION_ERROR",
            "ValidationName": "SERVICE_QUOTA",
            "ValidationFailureMode": "WARN",
            "ValidationStatusReason": "5 of 5 VPCs",
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
    lines = [line for line in run(code=1).stdout.splitlines() if line[:2] in ("XX", "!!")]
    assert lines == [
        "XX  change set: FAILED: The following validation failed: [AWS::EarlyValidation]",
        "!!  SERVICE_QUOTA of the stack: 5 of 5 VPCs",
        "XX  Company::Security::Hook of Data: buckets need a key",
    ]
    assert is_clean(cloudformation)


def test_a_problem_of_the_deployment_ends_it_with_one(run: Run, found: list[Finding]) -> None:
    """Also of a stack that is deployed: a pipeline may deploy with the CDK behind it."""
    found.append(problem("network: no route to ECR", "add one"))
    assert "XX  network: no route to ECR" in run(code=1).stdout


@pytest.mark.parametrize("operation", ["CreateChangeSet", "DescribeChangeSet", "DescribeEvents"])
def test_an_interrupt_or_a_refusal_leaves_nothing(
    run: Run, bare: World, cloudformation: FakeCloudFormation, operation: str
) -> None:
    ends: list[tuple[BaseException, int]] = [
        (KeyboardInterrupt(), 130),
        (client_error("AccessDenied", "you may not", operation), 4),
    ]
    for error, code in ends:

        def around(call: Call, proceed: Proceed, error: BaseException = error) -> dict[str, Any]:
            answer = proceed()
            if call.operation == operation:
                raise error
            return answer

        bare.aws.gate.around = around
        run(code=code)
        assert is_clean(cloudformation)


def test_a_change_set_that_takes_too_long_is_removed_once_it_is_done(
    run: Run, cloudformation: FakeCloudFormation
) -> None:
    cloudformation.statuses = ["CREATE_IN_PROGRESS"] * 250 + ["CREATE_COMPLETE"]
    run(code=1, says="was not done after 600 s")
    assert is_clean(cloudformation)
