"""The dead-letter queue. SQS cannot show a message without receiving it."""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from longhaul.adapters.sqs import SqsQueue
from longhaul.domain.message import Message
from longhaul.operations.letter import DeadLetter, explanation_of

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# A long poll asks all servers of SQS; a short one may miss messages.
_WAIT_S = 1


class SqsDeadLetters:
    """Dead-letter queues, as people use them."""

    def __init__(self, client: "SQSClient") -> None:
        self._client = client
        self._queue = SqsQueue(client)

    def waiting(self, queue_url: str) -> int:
        """About how many letters are there."""
        answer = self._client.get_queue_attributes(
            QueueUrl=queue_url,
            AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
        )
        return sum(int(count) for count in answer["Attributes"].values())

    def receive(self, queue_url: str, hold_s: int) -> list[DeadLetter]:
        """Some of them, invisible to others for `hold_s`; empty when there are no more."""
        answer = self._client.receive_message(
            QueueUrl=queue_url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=hold_s,
            WaitTimeSeconds=_WAIT_S,
            MessageSystemAttributeNames=["SentTimestamp", "MessageGroupId"],
            MessageAttributeNames=["All"],
        )
        return [_letter(message) for message in answer.get("Messages", [])]

    def release(self, queue_url: str, receipt_handles: Sequence[str]) -> None:
        """Make them visible again."""
        self._queue.set_visibility_many(queue_url, dict.fromkeys(receipt_handles, 0))

    def delete(self, queue_url: str, receipt_handle: str) -> bool:
        """False when the handle no longer holds the message."""
        return self._queue.delete(queue_url, receipt_handle)


def _letter(message: Mapping[str, Any]) -> DeadLetter:
    attributes = {
        name: _attribute(value) for name, value in message.get("MessageAttributes", {}).items()
    }
    system = message["Attributes"]
    content = Message(message["Body"], attributes, system.get("MessageGroupId"))
    return DeadLetter(
        message_id=message["MessageId"],
        receipt_handle=message["ReceiptHandle"],
        sent_at=datetime.fromtimestamp(int(system["SentTimestamp"]) / 1000, UTC),
        content=content,
        reason=explanation_of(content),
    )


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    """In the shape of an event source mapping's record, which is the one that is kept."""
    if value.get("BinaryValue") is not None:
        return {
            "dataType": value["DataType"],
            "binaryValue": base64.b64encode(value["BinaryValue"]).decode(),
        }
    return {"dataType": value["DataType"], "stringValue": value["StringValue"]}
