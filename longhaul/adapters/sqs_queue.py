"""SQS: visibility, deletion, sending."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, HTTPClientError

from longhaul.domain.message import MessageContent, in_batches, weight_of
from longhaul.ports import SendAnswer, Visibility

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_BATCH = 10
_BATCH_TRIES = 3
_NOT_HELD = ("MessageNotInflight", "ReceiptHandleIsInvalid")
_BEYOND_LIMIT = "beyond the limit"
# Words under which SQS's general InvalidParameterValue speaks of a handle that no longer holds its message.
_NOT_HELD_WORDS = ("does not exist or is not available", "expired", "receipt handle")


class SendError(Exception):
    """SQS would not take messages of a batch; its codes say why."""


class SqsQueue:
    """`ports.JobQueue` on any queue of the stack."""

    def __init__(self, client: "SQSClient") -> None:
        self._client = client

    def set_visibility(self, queue_url: str, receipt_handle: str, seconds: int) -> Visibility:
        """Make the message visible in `seconds` from now; errors other than those of the handle are raised."""
        try:
            self._client.change_message_visibility(
                QueueUrl=queue_url, ReceiptHandle=receipt_handle, VisibilityTimeout=seconds
            )
        except ClientError as error:
            return _visibility(error.response["Error"]["Code"], error.response["Error"]["Message"]) or _raise(error)
        return "set"

    def set_visibility_many(self, queue_url: str, seconds_by_handle: Mapping[str, int]) -> None:
        """As `set_visibility`, ten in a call.

        Entries that failed by no fault of ours are tried again. What SQS does not take is passed over: those messages show when their old timeout lapses.
        """
        pairs = list(seconds_by_handle.items())
        for _ in range(_BATCH_TRIES):
            failed = []
            for chunk in (pairs[n : n + _BATCH] for n in range(0, len(pairs), _BATCH)):
                entries: Any = [
                    {"Id": str(n), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
                    for n, (handle, seconds) in enumerate(chunk)
                ]
                answer = self._client.change_message_visibility_batch(QueueUrl=queue_url, Entries=entries)
                failed += [chunk[int(each["Id"])] for each in answer.get("Failed", []) if not each["SenderFault"]]
            if not failed:
                return
            pairs = failed

    def delete(self, queue_url: str, receipt_handle: str) -> bool:
        """False when the handle no longer holds the message: it will come again, and the row says what to do with it."""
        try:
            self._client.delete_message(QueueUrl=queue_url, ReceiptHandle=receipt_handle)
        except ClientError as error:
            if _visibility(error.response["Error"]["Code"], error.response["Error"]["Message"]) is None:
                raise
            return False
        return True

    def send(self, queue_url: str, message: MessageContent) -> None:
        self._client.send_message(QueueUrl=queue_url, **_sendable(message))

    def send_batch(self, queue_url: str, messages: Sequence[MessageContent]) -> list[SendAnswer]:
        """What became of each. When nobody can say (a throttle, an answer that got lost), `again`; any other error is raised."""
        entries: Any = [{"Id": str(n), **_sendable(message)} for n, message in enumerate(messages)]
        try:
            answer = self._client.send_message_batch(QueueUrl=queue_url, Entries=entries)
        except (HTTPClientError, ClientError) as error:
            if isinstance(error, ClientError) and not _is_passing(error):
                raise
            return [SendAnswer(reason=str(error), again=True)] * len(messages)
        answers = {each["Id"]: SendAnswer(message_id=each["MessageId"]) for each in answer.get("Successful", [])}
        for each in answer.get("Failed", []):
            reason = f"{each['Code']}: {each.get('Message', '')}"
            answers[each["Id"]] = SendAnswer(reason=reason, again=not each["SenderFault"])
        return [answers[str(n)] for n in range(len(messages))]

    def backlog(self, queue_url: str) -> int:
        answer = self._client.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["ApproximateNumberOfMessages"])
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    def send_many(self, queue_url: str, messages: Iterable[MessageContent]) -> None:
        """As `send`, up to ten in a call; what SQS refuses for the moment is sent again.

        Raises:
            SendError: some would not go, in spite of retries; those before them have gone.
        """
        for batch in in_batches(messages, weight_of):
            left = batch
            for _ in range(_BATCH_TRIES):
                answers = self.send_batch(queue_url, left)
                left = [message for message, answer in zip(left, answers, strict=True) if answer.message_id is None]
                if not left:
                    break
            else:
                reasons = sorted({answer.reason for answer in answers if answer.message_id is None})
                raise SendError(f"SQS did not take {len(left)} messages: {'; '.join(reasons)}")


def _visibility(code: str, text: str) -> Visibility | None:
    """What an error says about the handle; None when it is about something else."""
    if code.endswith(_NOT_HELD):
        return "not_held"
    if code.endswith("InvalidParameterValue") and _BEYOND_LIMIT in text:
        return "beyond_limit"
    if code.endswith("InvalidParameterValue") and any(words in text.lower() for words in _NOT_HELD_WORDS):
        return "not_held"
    return None


def _raise(error: ClientError) -> Visibility:
    raise error


def _sendable(message: MessageContent) -> Any:  # noqa: ANN401 - the arguments of SendMessage
    # Fair queues: the tenant's group goes along.
    group = {"MessageGroupId": message.group_id} if message.group_id else {}
    attributes = {name: _attribute(value) for name, value in message.attributes.items()}
    return {"MessageBody": message.body, "MessageAttributes": attributes, **group}


def _is_passing(error: ClientError) -> bool:
    """Whether the service was busy or failed itself."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or "hrottl" in error.response["Error"]["Code"]


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    """From the shape of a mapping's record to the shape that SQS takes."""
    if value.get("binaryValue") is not None:
        return {"DataType": value["dataType"], "BinaryValue": base64.b64decode(value["binaryValue"])}
    return {"DataType": value["dataType"], "StringValue": value["stringValue"]}
