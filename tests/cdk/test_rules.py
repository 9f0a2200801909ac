"""Linters and the snapshot, on the whole template."""

import json
import os
from pathlib import Path
from typing import Final

import pytest
from cfnlint import lint_file
from cfnlint.config import ManualArgs
from statelint.config import Config
from statelint.linter import Linter
from statelint.problem import ProblemType

from tests.cdk.synthesis import Synthesis

SNAPSHOT = Path(__file__).parent / "snapshots" / "Longhaul.template.json"


@pytest.fixture(params=["usual", "varied", "with_emr", "with_tiny", "guarded"])
def synthesis(request: pytest.FixtureRequest) -> Synthesis:
    found: Synthesis = request.getfixturevalue(request.param)
    return found


def test_nothing_is_found_that_is_not_acknowledged(synthesis: Synthesis) -> None:
    """By cdk-nag, nor by the CDK, which knows values that CloudFormation refuses."""
    reports = {report["pluginName"]: report for report in synthesis.report["pluginReports"]}
    assert [
        (violation["ruleName"], violation["description"])
        for name, report in reports.items()
        for violation in report["violations"]
        if name == "AwsSolutions" or violation["severity"] == "error"
    ] == []
    # If nothing is suppressed, nag did not run.
    assert reports["AwsSolutions"]["suppressedViolations"]


@pytest.mark.parametrize(
    "name",
    [
        "usual",
        "varied",
        pytest.param("with_emr", marks=pytest.mark.slow),
        pytest.param("with_tiny", marks=pytest.mark.slow),
        pytest.param("guarded", marks=pytest.mark.slow),
    ],
)
def test_cfn_lint_finds_nothing(name: str, request: pytest.FixtureRequest) -> None:
    # W3005: a DependsOn that a GetAtt already implies. CDK adds it, so that a role's policy exists
    # before what uses it. W3010: zones by name, where a setting names them.
    ignored = ["W3005", "W3010"]
    config = ManualArgs(regions=["us-east-1", "eu-central-1"], ignore_checks=ignored)

    template = request.getfixturevalue(name).template_file

    assert [str(match) for match in lint_file(template, config=config)] == []


def test_statelint_finds_nothing(synthesis: Synthesis) -> None:
    # FLOAT: it wants `2.0` as a BackoffRate, because of Ruby; AWS takes `2`.
    config = Config(ignored_problem_types=[ProblemType.FLOAT])
    assert Linter.validate(synthesis.definition, config) == []


def test_there_is_no_custom_resource(synthesis: Synthesis) -> None:
    kinds = {resource["Type"] for resource in synthesis.template["Resources"].values()}

    assert not {kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation::"))}


def test_the_template_equals_the_reviewed_snapshot(usual: Synthesis) -> None:
    """`UPDATE_SNAPSHOTS=1 pytest tests/cdk` writes a new snapshot: review its diff."""
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        SNAPSHOT.parent.mkdir(exist_ok=True)
        SNAPSHOT.write_text(json.dumps(usual.masked, indent=1) + "\n")

    assert usual.masked == json.loads(SNAPSHOT.read_text())


@pytest.mark.parametrize(
    ("name", "snapshot"),
    [
        # The simulation reads these two.
        ("with_tiny", "tiny.template.json"),
        ("with_engines", "engines.template.json"),
        ("varied", "varied.template.json"),
        ("guarded", "guarded.template.json"),
    ],
)
def test_what_settings_change_equals_the_reviewed_snapshot(
    usual: Synthesis, name: str, snapshot: str, request: pytest.FixtureRequest
) -> None:
    """What a setting does in the template is reviewed here. Renewed as the other one."""
    synthesis: Synthesis = request.getfixturevalue(name)
    before, after = usual.masked["Resources"], synthesis.masked["Resources"]
    changed = {name: each for name, each in after.items() if before.get(name) != each}
    file = SNAPSHOT.with_name(snapshot)
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        file.write_text(json.dumps({"Resources": changed}, indent=1) + "\n")

    assert changed == json.loads(file.read_text())["Resources"]


# What the stack costs by itself: docs/deploy.md counts what the template has.


def test_the_template_has_nothing_else_that_costs_while_nothing_runs(usual: Synthesis) -> None:
    kinds = {resource["Type"] for resource in usual.template["Resources"].values()}

    assert not kinds & {
        "AWS::EC2::EIP",
        "AWS::EC2::NatGateway",
        "AWS::ECS::Service",
        "AWS::KMS::Key",
        "AWS::SecretsManager::Secret",
    }
    # Endpoints of this type are free.
    assert all(
        each["VpcEndpointType"] == "Gateway"
        for each in usual.resources("AWS::EC2::VPCEndpoint").values()
    )
    assert all(
        each["BillingMode"] == "PAY_PER_REQUEST"
        for each in usual.resources("AWS::DynamoDB::Table").values()
    )


# What executions and tasks that run across a deploy go on calling keeps its ARN.


# An execution runs for up to a week with the definition that it was started with, and a task with
# its settings. Another logical id, another fixed name, or one where there was none, and
# CloudFormation replaces the resource: what runs then calls something that is gone, or the deploy
# fails. Never change a line of this table.
CALLED: Final = {
    # logical id → type, fixed name
    "HeartbeatCF533661": ("AWS::Lambda::Function", None),
    "SettleB9C75F15": ("AWS::Lambda::Function", None),
    "DispatcherD4A12972": ("AWS::Lambda::Function", None),
    "Sweeper30B1A830": ("AWS::Lambda::Function", None),
    "WorkflowMachine0C2E3460": ("AWS::StepFunctions::StateMachine", "Longhaul"),
    "WorkflowRole98C7DC98": ("AWS::IAM::Role", None),
    "LeasesTableFEA91EF2": ("AWS::DynamoDB::Table", None),
    "Data666C94C7": ("AWS::S3::Bucket", None),
    "MainQueueJobs72E61B98": ("AWS::SQS::Queue", "Longhaul-main-jobs"),
    "MainQueueDeadLettersFE639C19": ("AWS::SQS::Queue", "Longhaul-main-dead-letters"),
    "SparkCluster7F7B43B2": ("AWS::ECS::Cluster", None),
    "SparkSmall32711E7F": ("AWS::ECS::TaskDefinition", "Longhaul-small"),
    "SparkMedium8BA33337": ("AWS::ECS::TaskDefinition", "Longhaul-medium"),
    "SparkLarge611455CC": ("AWS::ECS::TaskDefinition", "Longhaul-large"),
    "SparkXlarge7A323003": ("AWS::ECS::TaskDefinition", "Longhaul-xlarge"),
    "SparkTaskRoleF5D82B02": ("AWS::IAM::Role", None),
    "SparkExecutionRoleA75CB3E9": ("AWS::IAM::Role", None),
    "SparkLogsB1435B6D": ("AWS::Logs::LogGroup", None),
    "NetworkVpc7FB7348F": ("AWS::EC2::VPC", None),
    "NetworkVpcPublicSubnet1Subnet36933139": ("AWS::EC2::Subnet", None),
    "NetworkVpcPublicSubnet2SubnetC427CCE0": ("AWS::EC2::Subnet", None),
    "NetworkTasks9BB5996E": ("AWS::EC2::SecurityGroup", None),
    "EmrServerlessApplication26E0FEBD": ("AWS::EMRServerless::Application", "Longhaul"),
    "EmrServerlessJobRole1A3931C7": ("AWS::IAM::Role", None),
}
NAMES: Final = {
    "AWS::Lambda::Function": "FunctionName",
    "AWS::StepFunctions::StateMachine": "StateMachineName",
    "AWS::IAM::Role": "RoleName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SQS::Queue": "QueueName",
    "AWS::ECS::Cluster": "ClusterName",
    "AWS::ECS::TaskDefinition": "Family",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::EMRServerless::Application": "Name",
    "AWS::EC2::SecurityGroup": "GroupName",
}


@pytest.mark.parametrize("logical_id", CALLED)
def test_what_running_executions_and_tasks_call_is_never_replaced_by_a_deploy(
    with_emr: Synthesis, logical_id: str
) -> None:
    resource = with_emr.template["Resources"][logical_id]
    name = NAMES.get(resource["Type"])  # VPC and subnets have none
    given = resource["Properties"].get(name) if name else None

    assert (resource["Type"], given) == CALLED[logical_id]


def test_the_definition_calls_nothing_that_the_table_leaves_out(with_emr: Synthesis) -> None:
    machine = with_emr.template["Resources"]["WorkflowMachine0C2E3460"]["Properties"]
    parts = machine["DefinitionString"]["Fn::Join"][1]
    named = {
        part.get("Ref") or part["Fn::GetAtt"][0]
        for part in parts
        if isinstance(part, dict) and ("Ref" in part or "Fn::GetAtt" in part)
    }

    assert {name for name in named if not name.startswith("AWS::")} <= CALLED.keys()
