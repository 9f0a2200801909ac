"""What executions and tasks that run across a deploy go on calling keeps its ARN."""

from typing import Final

import pytest

from tests.cdk.synthesis import Synthesis

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
