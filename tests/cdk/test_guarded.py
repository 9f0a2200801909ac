"""What a platform team may ask for: a key of its own, versions, logs, and names of roles."""

import json
import re

import pytest

from tests.cdk.conftest import CATALOG_KEY, KEY
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
def test_who_writes_to_the_bucket_may_use_its_key_through_s3_and_the_catalogs_through_glue(
    guarded: Synthesis, role: str
) -> None:
    statement, catalog = (each for each in guarded.statements(role) if "kms:" in json.dumps(each))

    assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    assert statement["Resource"] == KEY
    assert statement["Condition"] == {
        "StringEquals": {"kms:ViaService": "s3.eu-central-1.amazonaws.com"}
    }
    assert catalog["Action"] == ["kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"]
    assert catalog["Resource"] == CATALOG_KEY
    assert catalog["Condition"] == {
        "StringEquals": {"kms:ViaService": "glue.<AWS::Region>.<AWS::URLSuffix>"}
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


def test_every_role_has_the_boundary_the_path_and_a_name_with_the_prefix(
    guarded: Synthesis,
) -> None:
    roles = guarded.resources("AWS::IAM::Role").values()

    assert {role["PermissionsBoundary"] for role in roles} == {
        "arn:aws:iam::123456789012:policy/platform/workloads"
    }
    assert {role["Path"] for role in roles} == {"/workloads/spark/"}
    names = [role["RoleName"].replace("<AWS::Region>", "ap-southeast-1") for role in roles]
    for name in names:
        assert re.fullmatch(r"platform-[A-Za-z]+-[0-9a-f]{8}-ap-southeast-1", name), name
        assert len(name) <= 64
    assert len(set(names)) == len(names)


def test_the_stack_is_deployed_with_the_bootstrap_of_that_qualifier(guarded: Synthesis) -> None:
    version = guarded.template["Parameters"]["BootstrapVersion"]["Default"]
    functions = guarded.resources("AWS::Lambda::Function").values()

    assert version == "/cdk-bootstrap/acme/version"
    assert {json.dumps(each["Code"]["S3Bucket"])[1:9] for each in functions} == {"cdk-acme"}
    assert "hnb659fds" not in guarded.template_file.read_text()


def test_lake_formation_grants_each_role_that_uses_tables_the_databases_and_their_tables(
    guarded: Synthesis, usual: Synthesis
) -> None:
    granted: dict[str, list[tuple[str, list[str]]]] = {}
    for grant in guarded.resources("AWS::LakeFormation::PrincipalPermissions").values():
        resource = grant["Resource"]
        assert grant["PermissionsWithGrantOption"] == []
        if "Database" in resource:
            where = resource["Database"]["Name"]
        else:
            where = f"{resource['Table']['DatabaseName']}.*"
            assert resource["Table"]["TableWildcard"] == {}
        role = grant["Principal"]["DataLakePrincipalIdentifier"]
        granted.setdefault(role, []).append((where, grant["Permissions"]))

    tables = ["ALTER", "DELETE", "DESCRIBE", "INSERT", "SELECT"]
    users = {f"<{role}Role.Arn>" for role in ("Dispatcher", "Settle", "Sweeper", "SparkTask")}
    assert set(granted) == {*users, "<TablesOptimizerRole.Arn>"}
    for role in users:
        assert granted[role] == [
            ("longhaul", ["CREATE_TABLE", "DESCRIBE"]),
            ("longhaul.*", tables),
            ("their_lake", ["CREATE_TABLE", "DESCRIBE"]),
            ("their_lake.*", tables),
        ]
    assert "AWS::LakeFormation::PrincipalPermissions" not in usual.template_file.read_text()


def test_the_grants_of_lake_formation_are_made_one_after_the_other(guarded: Synthesis) -> None:
    found = guarded.template["Resources"]
    kind = "AWS::LakeFormation::PrincipalPermissions"
    before = {name: each["DependsOn"] for name, each in found.items() if each["Type"] == kind}
    (first,) = (on for on in before.values() if found[on[0]]["Type"] == "AWS::Glue::Database")

    assert all(len(on) == 1 for on in before.values())
    others = [on[0] for on in before.values() if on != first]
    assert len(set(others)) == len(others) == len(before) - 1


def test_without_a_database_of_its_own_the_stack_makes_none_and_opens_those_that_are_named(
    with_all: Synthesis,
) -> None:
    (tables,) = (
        each for each in with_all.statements("SparkTaskRole") if each.get("Sid") == "WriteTables"
    )

    assert with_all.resources("AWS::Glue::Database") == {}
    assert [each.rpartition(":")[2] for each in tables["Resource"]] == [
        "catalog",
        "database/their_lake",
        "table/their_lake/*",
    ]
