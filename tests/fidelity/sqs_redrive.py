"""Rules of SQS: dead letters and their way back."""

import json
from typing import Any

from tests.contract.conftest import Aws
from tests.fidelity.rule import NOT_ASKED, Rules, recorded
from tests.fidelity.sqs import DAY_S, REAL_TIME, received, send

RULES = Rules()


def arn_of(sqs: Any, url: str) -> str:
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


def dead_letter_queue(aws: Aws) -> tuple[Any, str, str]:
    """SQS, a queue, and the queue `source` whose dead letters go there after a receive of 1 s."""
    sqs = aws.client("sqs")
    fortnight = {"MessageRetentionPeriod": str(14 * DAY_S)}
    dead = str(sqs.create_queue(QueueName="jobs", Attributes=fortnight)["QueueUrl"])
    policy = {"deadLetterTargetArn": arn_of(sqs, dead), "maxReceiveCount": 1}
    attributes = {"RedrivePolicy": json.dumps(policy), "VisibilityTimeout": "1"}
    source = sqs.create_queue(QueueName="source", Attributes=attributes)["QueueUrl"]
    return sqs, dead, str(source)


def dead_letter(aws: Aws, **sent: Any) -> tuple[str, dict[str, Any]]:
    """The id of a message that SQS moves after its only receive, and the dead letter."""
    sqs, dead, source = dead_letter_queue(aws)
    message_id = sqs.send_message(QueueUrl=source, MessageBody="job", **sent)["MessageId"]
    assert sqs.receive_message(QueueUrl=source)["Messages"]
    aws.clock.sleep(1.5)
    assert "Messages" not in sqs.receive_message(QueueUrl=source, WaitTimeSeconds=1)
    (message,) = sqs.receive_message(
        QueueUrl=dead,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["All"],
        WaitTimeSeconds=10,
    )["Messages"]
    return message_id, message


@RULES.add(
    "the same id, receive 2",
    recorded("sqs/test_sqs.py::test_dead_letter_queue_message_attributes", "2024-04"),
)
def receive_count_of_a_dead_letter(aws: Aws) -> str:
    sent, message = dead_letter(aws)
    kept = "the same id" if message["MessageId"] == sent else "another id"
    return f"{kept}, receive {message['Attributes']['ApproximateReceiveCount']}"


@RULES.add(
    "v, from source",
    recorded("sqs/test_sqs.py::test_dead_letter_queue_message_attributes", "2024-04"),
    embedded="v, from no queue",
    why="moto does not say it, and Longhaul does not read it",
)
def attributes_of_a_dead_letter(aws: Aws) -> str:
    kept = {"a": {"DataType": "String", "StringValue": "v"}}
    _, message = dead_letter(aws, MessageAttributes=kept)
    source = message["Attributes"].get("DeadLetterQueueSourceArn", "no queue").split(":")[-1]
    return f"{message['MessageAttributes']['a']['StringValue']}, from {source}"


@RULES.add(
    "job, 14 days after it was sent no message",
    "sqs-dead-letter-queues",
    embedded=NOT_ASKED,
    why=REAL_TIME,
)
def age_of_a_dead_letter(aws: Aws) -> str:
    sqs, dead, source = dead_letter_queue(aws)
    send(sqs, source)
    for _ in range(2):
        received(sqs, source)
        aws.clock.sleep(3 * DAY_S)
    aws.clock.sleep(8 * DAY_S - 60)
    before = received(sqs, dead, VisibilityTimeout=1)
    aws.clock.sleep(60)
    return f"{before}, 14 days after it was sent {received(sqs, dead)}"
