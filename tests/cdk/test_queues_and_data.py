import pytest

from tests.cdk.synthesis import Synthesis

DAY_S = 86_400


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
