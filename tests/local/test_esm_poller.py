import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longhaul.local.assembly import DeployError
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.esm_poller import EsmPoller, Mapping, items_to_keep
from tests.local.support import eventually, function

IDS = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("response", "kept"),
    [
        ("", []),
        ("null", []),
        ("{}", []),
        ('{"batchItemFailures": null}', []),
        ('{"batchItemFailures": []}', []),
        ('{"batchItemFailures": [{"itemIdentifier": "b"}]}', ["b"]),
        ('{"batchItemFailures": [{"itemIdentifier": "b"}, {"itemIdentifier": "b"}]}', ["b"]),
        ('{"batchItemFailures": [{"itemIdentifier": ""}]}', IDS),
        ('{"batchItemFailures": [{"itemIdentifier": null}]}', IDS),
        ('{"batchItemFailures": [{"itemIdentifier": "unknown"}, {"itemIdentifier": "b"}]}', IDS),
        ('{"batchItemFailures": [{"id": "b"}]}', IDS),
        ('{"batchItemFailures": "b"}', IDS),
        ('"text"', IDS),
        ("[1]", IDS),
        ("not JSON", IDS),
    ],
)
def test_response_of_the_function_decides_which_messages_stay(
    response: str, kept: list[str]
) -> None:
    assert items_to_keep(response.encode(), IDS, reports_item_failures=True) == set(kept)


def test_without_item_failures_a_success_deletes_the_whole_batch() -> None:
    assert (
        items_to_keep(
            b'{"batchItemFailures": [{"itemIdentifier": "b"}]}', IDS, reports_item_failures=False
        )
        == set()
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"BatchSize": 100},
        {"FilterCriteria": {"Filters": [{}]}},
        {"MaximumBatchingWindowInSeconds": 5},
    ],
)
def test_mapping_with_an_undriven_feature_is_refused(asked: dict[str, Any]) -> None:
    configuration = {
        "EventSourceArn": "arn:aws:sqs:us-east-1:1:jobs",
        "FunctionArn": "arn",
        "BatchSize": 10,
    }

    with pytest.raises(NotImplementedError, match="arn:aws:sqs:us-east-1:1:jobs"):
        Mapping.of(configuration | asked)


# The body of a message says what becomes of it: "keep", "delete" or "raise". Each event is written
# to a file.
CODE = """
    import json, os, pathlib, uuid

    def handle(event, context):
        # Two invocations may run at once. The test reads no file before all of it is there.
        part = pathlib.Path(os.environ["LOG"]) / f"{uuid.uuid4()}.part"
        part.write_text(json.dumps(event))
        part.rename(part.with_suffix(".json"))
        if any(record["body"] == "raise" for record in event["Records"]):
            raise RuntimeError("as asked")
        kept = [r["messageId"] for r in event["Records"] if r["body"] == "keep"]
        return {"batchItemFailures": [{"itemIdentifier": message} for message in kept]}
"""


@pytest.fixture
def queue(aws: EmbeddedAws, assembly: Callable[..., Path], events: Path) -> str:
    resources = {
        "Jobs": {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": 600}},
        "Handler": function("handle", Environment={"Variables": {"LOG": str(events)}}),
        "Mapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": {"Fn::GetAtt": ["Jobs", "Arn"]},
                "FunctionName": {"Ref": "Handler"},
                "BatchSize": 10,
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
                "ScalingConfig": {"MaximumConcurrency": 2},
            },
        },
    }
    return aws.deploy(assembly(resources, CODE, {"Url": {"Ref": "Jobs"}}), "Tiny")["Url"]


def test_a_mapping_is_refused_whose_functions_role_may_not_receive(
    aws: EmbeddedAws, queue: str
) -> None:
    asked: list[tuple[str, str]] = []

    def allows(role: str, action: str, resource: str) -> bool:
        assert role
        asked.append((action, resource))
        return action != "sqs:DeleteMessage"

    poller = EsmPoller(account=aws.account, region=aws.region, invoker=aws.functions, allows=allows)
    with pytest.raises(DeployError, match="does not have permissions to call DeleteMessage on SQS"):
        poller.start()
    name = queue.rpartition("/")[2]
    assert asked == [
        (f"sqs:{action}", f"arn:aws:sqs:{aws.region}:{aws.account}:{name}")
        for action in ("ReceiveMessage", "DeleteMessage")
    ]


def records(events: Path) -> list[dict[str, Any]]:
    return [
        record
        for path in events.glob("*.json")
        for record in json.loads(path.read_text())["Records"]
    ]


def counts(sqs: Any, queue: str) -> tuple[int, int]:
    """The numbers of visible messages and of messages in flight."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    return int(attributes[names[0]]), int(attributes[names[1]])


def test_reported_messages_stay_in_flight_and_the_others_are_deleted(
    client: Callable[[str], Any], queue: str, events: Path
) -> None:
    sqs = client("sqs")
    for body in ("keep", "delete", "keep"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)

    eventually(
        lambda: len(records(events)) == 3 and counts(sqs, queue) == (0, 2), "two messages stay"
    )


def test_failed_invocation_deletes_nothing(
    client: Callable[[str], Any], queue: str, events: Path
) -> None:
    sqs = client("sqs")
    sqs.send_message_batch(
        QueueUrl=queue, Entries=[{"Id": body, "MessageBody": body} for body in ("raise", "delete")]
    )

    eventually(lambda: len(records(events)) == 2, "both were handed over")
    bodies_by_event = [
        {record["body"] for record in json.loads(path.read_text())["Records"]}
        for path in events.glob("*.json")
    ]
    stay = sum(len(bodies) for bodies in bodies_by_event if "raise" in bodies)
    eventually(lambda: counts(sqs, queue) == (0, stay), f"{stay} stay")


def test_a_mapping_that_is_switched_off_hands_over_nothing_until_it_is_on_again(
    client: Callable[[str], Any], queue: str, events: Path
) -> None:
    sqs, lambda_ = client("sqs"), client("lambda")
    (mapping,) = lambda_.list_event_source_mappings()["EventSourceMappings"]
    lambda_.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    # Each of the two pollers puts back what it receives in the long poll that it is in.
    for body in ("keep", "keep"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)

    def put_back_by_both() -> bool:
        return counts(sqs, queue) == (2, 0) and not records(events)

    eventually(put_back_by_both, "both messages to wait")
    lambda_.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)
    eventually(lambda: len(records(events)) == 2, "both were handed over")


def test_record_has_the_shape_that_lambda_gives_it(
    client: Callable[[str], Any], queue: str, events: Path
) -> None:
    sqs = client("sqs")
    attributes = {
        "job_id": {"DataType": "String", "StringValue": "j-1"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
    }
    sent = sqs.send_message(
        QueueUrl=queue, MessageBody='{"job": "sql"}', MessageAttributes=attributes
    )

    (record,) = eventually(lambda: records(events), "the record")

    assert record.pop("receiptHandle")
    assert record.pop("md5OfMessageAttributes") == sent["MD5OfMessageAttributes"]
    assert record.pop("attributes").keys() == {
        "ApproximateReceiveCount",
        "SentTimestamp",
        "SenderId",
        "ApproximateFirstReceiveTimestamp",
    }
    empty: dict[str, list[str]] = {"stringListValues": [], "binaryListValues": []}
    assert record == {
        "messageId": sent["MessageId"],
        "body": '{"job": "sql"}',
        "messageAttributes": {
            "job_id": {"dataType": "String", "stringValue": "j-1", **empty},
            "raw": {"dataType": "Binary", "binaryValue": "AAE=", **empty},
        },
        "md5OfBody": sent["MD5OfMessageBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue.rsplit('/', 1)[-1]}",
        "awsRegion": "us-east-1",
    }


def test_record_names_the_tenant_of_a_fair_queue(
    client: Callable[[str], Any], queue: str, events: Path
) -> None:
    client("sqs").send_message(QueueUrl=queue, MessageBody="keep", MessageGroupId="tenant-7")

    (record,) = eventually(lambda: records(events), "the record")

    assert record["attributes"]["MessageGroupId"] == "tenant-7"
