"""What a platform team may ask for: a key of its own, versions, and logs of access and flows."""

import json

import pytest

from tests.cdk.conftest import KEY
from tests.cdk.synthesis import Synthesis


def test_customers_key_encrypts_the_bucket_the_logs_and_the_topic(guarded: Synthesis) -> None:
    (rule,) = guarded.only("AWS::S3::Bucket")["BucketEncryption"][
        "ServerSideEncryptionConfiguration"
    ]
    assert rule == {
        "BucketKeyEnabled": True,
        "ServerSideEncryptionByDefault": {"KMSMasterKeyID": KEY, "SSEAlgorithm": "aws:kms"},
    }
    assert guarded.only("AWS::SNS::Topic")["KmsMasterKeyId"] == KEY
    groups = guarded.resources("AWS::Logs::LogGroup").values()
    assert {group["KmsKeyId"] for group in groups} == {KEY}


@pytest.mark.parametrize("role", ["DispatcherRole", "SettleRole", "SweeperRole", "SparkTaskRole"])
def test_who_writes_to_the_bucket_may_use_its_key_through_s3(guarded: Synthesis, role: str) -> None:
    (statement,) = (each for each in guarded.statements(role) if "kms:" in json.dumps(each))

    assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    assert statement["Resource"] == KEY
    assert statement["Condition"] == {
        "StringEquals": {"kms:ViaService": "s3.eu-central-1.amazonaws.com"}
    }


def test_versions_are_kept_for_as_long_as_the_setting_says(
    guarded: Synthesis, usual: Synthesis
) -> None:
    bucket = guarded.only("AWS::S3::Bucket")

    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["LifecycleConfiguration"]["Rules"][-1] == {
        "ExpiredObjectDeleteMarker": True,
        "Id": "OldVersions",
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7},
        "Status": "Enabled",
    }
    assert "VersioningConfiguration" not in usual.only("AWS::S3::Bucket")


def test_access_logs_of_the_data_bucket_go_where_the_setting_says(guarded: Synthesis) -> None:
    assert guarded.only("AWS::S3::Bucket")["LoggingConfiguration"] == {
        "DestinationBucketName": "their-logs",
        "LogFilePrefix": "Longhaul/data/",
    }


def test_flow_logs_hold_all_traffic_and_go_to_a_log_group_of_the_stack(guarded: Synthesis) -> None:
    flows = guarded.only("AWS::EC2::FlowLog")

    assert (flows["ResourceType"], flows["TrafficType"]) == ("VPC", "ALL")
    assert flows["LogGroupName"] == "<NetworkFlowLogs>"
    (trust,) = guarded.resources("AWS::IAM::Role")["NetworkFlowLogsRole"][
        "AssumeRolePolicyDocument"
    ]["Statement"]
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": "<AWS::AccountId>"}}
