"""SQS: visibility, deletion, sending."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, HTTPClientError

from longhaul.core.aws_errors import code_of, is_refusal, is_refused, is_throttle, message_of
from longhaul.core.errors import LonghaulError
from longhaul.core.message import MAX_BATCH, Message, in_batches, size_of
from longhaul.core.ports import Depth, SendResult, Visibility

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_BATCH_TRIES = 3
_NOT_HELD = ("MessageNotInflight", "ReceiptHandleIsInvalid")
_BEYOND_LIMIT = "beyond the limit"
# What SQS's general InvalidParameterValue says about a handle that no longer holds its message.
_NOT_HELD_WORDS = ("does not exist or is not available", "expired", "receipt handle")


class SendError(LonghaulError):
    """SQS did not take messages for now; the text has its codes."""


class SqsQueue:
    """`ports.JobQueue` on any queue of the stack."""

    def __init__(self, client: "SQSClient") -> None:
        self._client = client

    def set_visibility(self, queue_url: str, receipt_handle: str, seconds: int) -> Visibility:
        """Make the message visible in `seconds`; raises errors that are not about the handle.

        Without a URL (a removed stage's) there is no queue, and nothing holds a message.
        """
        if not queue_url:
            return "not_held"
        try:
            self._client.change_message_visibility(
                QueueUrl=queue_url, ReceiptHandle=receipt_handle, VisibilityTimeout=seconds
            )
        except ClientError as error:
            visibility = _visibility(error)
            if visibility is None:
                raise
            return visibility
        return "set"

    def set_visibility_many(self, queue_url: str, seconds_by_handle: Mapping[str, int]) -> None:
        """As `set_visibility`, ten in a call.

        What SQS does not change for now is passed over, too: it shows when its old timeout lapses.
        """
        pairs = list(seconds_by_handle.items())
        for chunk in (pairs[n : n + MAX_BATCH] for n in range(0, len(pairs), MAX_BATCH)):
            entries: Any = [
                {"Id": str(n), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
                for n, (handle, seconds) in enumerate(chunk)
            ]
            self._client.change_message_visibility_batch(QueueUrl=queue_url, Entries=entries)

    def delete(self, queue_url: str, receipt_handle: str) -> bool:
        """False when the handle no longer holds the message, which then comes again."""
        if not queue_url:
            return False
        try:
            self._client.delete_message(QueueUrl=queue_url, ReceiptHandle=receipt_handle)
        except ClientError as error:
            if _visibility(error) is None:
                raise
            return False
        return True

    def send(self, queue_url: str, message: Message) -> None:
        self._client.send_message(QueueUrl=queue_url, **_sendable(message))

    def send_batch(self, queue_url: str, messages: Sequence[Message]) -> list[SendResult]:
        """What became of each; at most ten, of 1 MiB together.

        `again` when that is unknown (a throttle, a lost answer). What SQS will never take is
        refused alone, and the others are sent. Any other error is raised.
        """
        entries: Any = [{"Id": str(n), **_sendable(message)} for n, message in enumerate(messages)]
        try:
            answer = self._client.send_message_batch(QueueUrl=queue_url, Entries=entries)
        except (HTTPClientError, ClientError) as error:
            if isinstance(error, ClientError) and not _is_passing(error):
                if not is_refused(error):
                    raise
                if len(messages) > 1:  # which of them?
                    return [self.send_batch(queue_url, [each])[0] for each in messages]
                return [SendResult(reason=str(error), is_refused=True)]
            return [SendResult(reason=str(error), again=True)] * len(messages)
        answers = {
            each["Id"]: SendResult(message_id=each["MessageId"])
            for each in answer.get("Successful", [])
        }
        for each in answer.get("Failed", []):
            reason = f"{each['Code']}: {each.get('Message', '')}"
            answers[each["Id"]] = SendResult(
                reason=reason,
                again=not each["SenderFault"],
                is_refused=each["SenderFault"] and is_refusal(each["Code"]),
            )
        return [answers[str(n)] for n in range(len(messages))]

    def depth(self, queue_url: str) -> Depth:
        """As SQS counts: right within about a minute."""
        found = self._client.get_queue_attributes(
            QueueUrl=queue_url,
            AttributeNames=[
                "ApproximateNumberOfMessages",
                "ApproximateNumberOfMessagesNotVisible",
            ],
        )["Attributes"]
        return Depth(
            visible=int(found["ApproximateNumberOfMessages"]),
            hidden=int(found["ApproximateNumberOfMessagesNotVisible"]),
        )

    def send_many(
        self, queue_url: str, messages: Iterable[Message]
    ) -> Sequence[tuple[Message, str]]:
        """As `send`, up to ten in a call; what SQS refuses for the moment is sent again.

        Raises:
            SendError: SQS did not take some in spite of retries; those before them were sent.
        """
        refused: list[tuple[Message, str]] = []
        for batch in in_batches(messages, size_of):
            left = batch
            for _ in range(_BATCH_TRIES):
                results = list(zip(left, self.send_batch(queue_url, left), strict=True))
                unsent = [(each, to) for each, to in results if to.message_id is None]
                refused += [(each, to.reason) for each, to in unsent if to.is_refused]
                left = [each for each, to in unsent if not to.is_refused]
                if not left:
                    break
            else:
                reasons = sorted({to.reason for _, to in unsent})
                raise SendError(f"SQS did not take {len(left)} messages: {'; '.join(reasons)}")
        return refused


def _visibility(error: ClientError) -> Visibility | None:
    """What an error says about the handle; None when it is about something else."""
    code, text = code_of(error), message_of(error)
    if code.endswith(_NOT_HELD):
        return "not_held"
    if code.endswith("InvalidParameterValue") and _BEYOND_LIMIT in text:
        return "beyond_limit"
    if code.endswith("InvalidParameterValue") and any(
        words in text.lower() for words in _NOT_HELD_WORDS
    ):
        return "not_held"
    return None


def _sendable(message: Message) -> Any:  # noqa: ANN401 - the arguments of SendMessage
    # Fair queues: the tenant's group goes along.
    group = {"MessageGroupId": message.group_id} if message.group_id else {}
    attributes = {name: _attribute(value) for name, value in message.attributes.items()}
    return {"MessageBody": message.body, "MessageAttributes": attributes, **group}


def _is_passing(error: ClientError) -> bool:
    """Whether the service was busy or failed itself."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or is_throttle(error)


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    """An attribute of a mapping's record, in the shape that SQS takes."""
    if value.get("binaryValue") is not None:
        return {
            "DataType": value["dataType"],
            "BinaryValue": base64.b64decode(value["binaryValue"]),
        }
    return {"DataType": value["dataType"], "StringValue": value["stringValue"]}
