import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.local.moto_repairs import cloudformation as cloudformation_repairs
from longhaul.local.moto_repairs import events as events_repairs
from tests.local.support import Moto

FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:sweep"


def test_a_rule_sends_to_its_targets_what_its_pattern_matches(
    moto: Moto, *, repaired: bool
) -> None:
    sent: list[tuple[str, str]] = []
    if repaired:
        events_repairs.targets(
            moto.patches, lambda rule, event: sent.append((rule.name, event["source"]))
        )
    events = moto.client("events")
    for name, source, state in (("matching", "ours", "ENABLED"), ("off", "ours", "DISABLED")):
        events.put_rule(Name=name, EventPattern=json.dumps({"source": [source]}), State=state)
    events.put_rule(Name="recurring", ScheduleExpression="rate(5 minutes)")
    for name in ("matching", "off", "recurring"):
        events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": FUNCTION}])
    entries = [
        {"Source": source, "DetailType": "ended", "Detail": "{}"} for source in ("ours", "theirs")
    ]

    if not repaired:
        with pytest.raises(ClientError):
            events.put_events(Entries=entries)
        return
    assert events.put_events(Entries=entries)["FailedEntryCount"] == 0
    assert sent == [("matching", "ours")]


def policy(effect: str, action: str, **more: Any) -> dict[str, Any]:
    statement = {"Effect": effect, "Principal": "*", "Action": action, "Resource": "*", **more}
    return {"Version": "2012-10-17", "Statement": [statement]}


OVER_HTTP = {"Condition": {"Bool": {"aws:SecureTransport": "false"}}}


OF_QUEUE = policy("Deny", "sqs:SendMessage")


OF_BUCKET = policy("Deny", "s3:*", **OVER_HTTP)


TEMPLATE = {
    "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "jobs"}},
    "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "data"}},
    "OfQueue": {
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {"Queues": [{"Ref": "Queue"}], "PolicyDocument": OF_QUEUE},
    },
    "OfBucket": {
        "Type": "AWS::S3::BucketPolicy",
        "Properties": {"Bucket": {"Ref": "Bucket"}, "PolicyDocument": OF_BUCKET},
    },
}


@pytest.mark.filterwarnings("ignore:Tried to parse")
def test_resources_of_a_template_have_the_policies_that_it_gives_them(
    moto: Moto, *, repaired: bool
) -> None:
    if repaired:
        cloudformation_repairs.policies(moto.patches)
    moto.client("cloudformation").create_stack(
        StackName="tiny", TemplateBody=json.dumps({"Resources": TEMPLATE})
    )
    sqs = moto.client("sqs")
    url = sqs.get_queue_url(QueueName="jobs")["QueueUrl"]
    queue = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    if not repaired:
        assert "Policy" not in queue
        return
    assert json.loads(queue["Policy"]) == OF_QUEUE
    s3 = moto.client("s3")
    assert json.loads(s3.get_bucket_policy(Bucket="data")["Policy"]) == OF_BUCKET


def test_a_buckets_policy_that_denies_requests_without_tls_denies_no_others(
    moto: Moto, *, repaired: bool
) -> None:
    if repaired:
        cloudformation_repairs.policies(moto.patches)
    s3 = moto.client("s3")
    s3.create_bucket(Bucket="data")
    s3.put_bucket_policy(Bucket="data", Policy=json.dumps(OF_BUCKET))
    if not repaired:
        with pytest.raises(ClientError, match="403"):
            s3.put_object(Bucket="data", Key="k", Body=b"1")
        return
    s3.put_object(Bucket="data", Key="k", Body=b"1")
    assert s3.get_object(Bucket="data", Key="k")["Body"].read() == b"1"
