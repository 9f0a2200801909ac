import pytest

from tests.cdk.synthesis import Synthesis
from tests.events import event

DAY_S = 86_400


def test_jobs_queue_keeps_messages_two_weeks_and_redrives_only_as_a_last_resort(
    usual: Synthesis,
) -> None:
    queue = usual.resources("AWS::SQS::Queue")["MainQueueJobs"]

    assert queue == {
        "MaximumMessageSize": 1_032_192,
        "MessageRetentionPeriod": 14 * DAY_S,
        "QueueName": "Longhaul-main-jobs",
        "RedrivePolicy": {
            "deadLetterTargetArn": "<MainQueueDeadLetters.Arn>",
            "maxReceiveCount": 1000,
        },
        "SqsManagedSseEnabled": True,
        "VisibilityTimeout": 120,
    }


def test_dead_letters_are_kept_as_long_and_have_room_for_the_reason(usual: Synthesis) -> None:
    queues = usual.resources("AWS::SQS::Queue")

    dead_letters = queues["MainQueueDeadLetters"]
    assert dead_letters["MessageRetentionPeriod"] == 14 * DAY_S
    assert (
        dead_letters["MaximumMessageSize"] - queues["MainQueueJobs"]["MaximumMessageSize"]
        == 16 * 1024
    )
    assert dead_letters["SqsManagedSseEnabled"] is True


def test_queues_have_the_names_that_the_event_files_use(
    usual: Synthesis, varied: Synthesis
) -> None:
    record = event("dispatcher", "new-job")["Records"][0]

    names = {queue.get("QueueName") for queue in usual.resources("AWS::SQS::Queue").values()}
    assert record["eventSourceARN"].rpartition(":")[2] in names
    names = {queue.get("QueueName") for queue in varied.resources("AWS::SQS::Queue").values()}
    assert names >= {
        f"{varied.stack_name}-clean-up-jobs",
        f"{varied.stack_name}-clean-up-dead-letters",
    }


def test_every_queue_and_bucket_refuses_requests_without_tls(usual: Synthesis) -> None:
    policies = {
        **usual.resources("AWS::SQS::QueuePolicy"),
        **usual.resources("AWS::S3::BucketPolicy"),
    }

    guarded = [
        policy.get("Queues", policy.get("Bucket"))
        for policy in policies.values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    ]
    assert sorted(map(str, guarded)) == [
        "<Data>",
        "['<MainQueueDeadLetters>']",
        "['<MainQueueJobs>']",
        "['<SchedulingUndelivered>']",
        "['<SweepingUndelivered>']",
    ]


def test_each_stage_has_queues_and_outputs_of_its_own(varied: Synthesis) -> None:
    assert set(varied.resources("AWS::SQS::Queue")) == {
        "MainQueueJobs",
        "MainQueueDeadLetters",
        "CleanUpQueueJobs",
        "CleanUpQueueDeadLetters",
        "SweepingUndelivered",
        "SchedulingUndelivered",
    }
    assert list(varied.template["Outputs"]) == [
        "JobsQueueUrl",
        "DeadLetterQueueUrl",
        "CleanUpQueueUrl",
        "CleanUpDeadLetterQueueUrl",
        "LeasesTableName",
        "StateMachineArn",
        "DataBucketName",
        "LonghaulVersion",
        "AlarmsTopicArn",
        "SchedulerRoleArn",
        "CleanUpSchedulerRoleArn",
    ]


def test_leases_table_is_on_demand_and_restorable_and_expires_rows_by_ttl(usual: Synthesis) -> None:
    table = usual.only("AWS::DynamoDB::Table")

    assert table["KeySchema"] == [
        {"AttributeName": "key", "KeyType": "HASH"},
        {"AttributeName": "item", "KeyType": "RANGE"},
    ]
    assert table["DeletionProtectionEnabled"] is True
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}


def test_the_indexes_of_leases_hold_keys_only(usual: Synthesis) -> None:
    assert usual.only("AWS::DynamoDB::Table")["GlobalSecondaryIndexes"] == [
        {
            "IndexName": name,
            "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
        for name in ("open", "root")
    ] + [
        {
            "IndexName": "ended",
            "KeySchema": [
                {"AttributeName": "ended", "KeyType": "HASH"},
                {"AttributeName": "settled_at", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        },
    ]


def test_data_bucket_is_private_and_ends_abandoned_uploads_after_thirty_days(
    usual: Synthesis,
) -> None:
    bucket = usual.only("AWS::S3::Bucket")

    assert bucket["LifecycleConfiguration"]["Rules"] == [
        {
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 30},
            "Id": "AbandonedUploads",
            "Status": "Enabled",
        },
        {"ExpirationInDays": 365, "Id": "OldRequests", "Prefix": "longhaul/", "Status": "Enabled"},
    ]
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert "VersioningConfiguration" not in bucket


def test_leases_and_data_outlive_the_stack_but_not_a_first_deployment_that_fails(
    usual: Synthesis,
) -> None:
    policies = {
        resource["Type"]: (resource["DeletionPolicy"], resource["UpdateReplacePolicy"])
        for resource in usual.template["Resources"].values()
        if resource.get("DeletionPolicy", "Delete") != "Delete"
    }
    # With `Retain` the bucket of a failed creation would stay in the account.
    kept = ("RetainExceptOnCreate", "Retain")
    assert policies == {
        # Its roll-back could not delete what is protected from that.
        "AWS::DynamoDB::Table": ("Retain", "Retain"),
        "AWS::Glue::Database": kept,
        "AWS::S3::Bucket": kept,
        "AWS::S3::BucketPolicy": kept,
    }


def test_the_stack_has_a_database_of_its_own_for_tables_below_the_data_bucket(
    usual: Synthesis,
) -> None:
    database = usual.only("AWS::Glue::Database")

    assert database["DatabaseInput"]["Name"] == "longhaul"
    assert database["DatabaseInput"]["LocationUri"] == "s3://<Data>/tables/longhaul"


@pytest.mark.parametrize("stack", ["usual", "guarded", "with_emr"])
def test_no_rule_of_the_bucket_deletes_what_a_table_has(
    stack: str, request: pytest.FixtureRequest
) -> None:
    synthesis: Synthesis = request.getfixturevalue(stack)
    rules = synthesis.only("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
    deletes = [rule for rule in rules if "ExpirationInDays" in rule]

    # Without a prefix, a rule ends uploads that were never completed, and versions that are not
    # current any more: no table has either.
    assert deletes
    for rule in deletes:
        assert rule["Prefix"].startswith("longhaul/")
