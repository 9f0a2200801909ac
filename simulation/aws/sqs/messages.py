"""A message's validation, its size, and what a receive returns of it."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from simulation.aws.service import Answer, RefusedError
from simulation.aws.sqs.queues import Message, Queue, invalid

MAX_ATTRIBUTES = 10
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GROUP = re.compile(r"[!-~]{1,128}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_TYPES = ("String", "Number", "Binary")


def size_of(body: str, attributes: Mapping[str, Mapping[str, Any]]) -> int:
    """The size of a message in bytes."""
    return _bytes(body) + sum(
        _bytes(name)
        + _bytes(value["DataType"])
        + _bytes(value.get("StringValue") or value.get("BinaryValue") or "")
        for name, value in attributes.items()
    )


def _bytes(text: str | bytes) -> int:
    return len(text.encode()) if isinstance(text, str) and not text.isascii() else len(text)


def check_message(
    queue: Queue,
    body: str,
    attributes: Mapping[str, Mapping[str, Any]],
    delay_s: int,
    group_id: str | None,
) -> None:
    """Raise what SQS raises for an invalid message."""
    if not body:
        raise RefusedError(
            "MissingParameter", "The request must contain the parameter MessageBody."
        )
    if _NOT_XML.search(body):
        raise RefusedError(
            "InvalidMessageContents", "Invalid binary character was found in the message body."
        )
    if len(attributes) > MAX_ATTRIBUTES:
        raise invalid(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum"
            f" [{MAX_ATTRIBUTES}]."
        )
    for name, value in attributes.items():
        _check_attribute(name, value)
    if size_of(body, attributes) > queue.numbers["MaximumMessageSize"]:
        limit = queue.numbers["MaximumMessageSize"]
        raise invalid(
            "One or more parameters are invalid."
            f" Reason: Message must be shorter than {limit} bytes."
        )
    if not 0 <= delay_s <= 900:
        raise invalid(
            f"Value {delay_s} for parameter DelaySeconds is invalid."
            " Reason: DelaySeconds must be >= 0 and <= 900."
        )
    if group_id is not None and not _GROUP.fullmatch(group_id):
        raise invalid(
            f"Value {group_id} for parameter MessageGroupId is invalid. Reason: MessageGroupId can"
            " only include alphanumeric and punctuation characters. 1 to 128 in length."
        )


def _check_attribute(name: str, value: Mapping[str, Any]) -> None:
    if not _NAME.fullmatch(name) or name.lower().startswith(("aws.", "amazon.")):
        raise invalid(f"Message (user) attribute name '{name}' is not allowed.")
    kind = value["DataType"].partition(".")[0]
    if kind not in _TYPES:
        raise invalid(
            f"The type of message (user) attribute '{name}' is invalid. You must use only the"
            " following supported type prefixes: Binary, Number, String."
        )
    if not value.get("BinaryValue" if kind == "Binary" else "StringValue"):
        raise invalid(
            f"Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'."
        )


def md5(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()


def shown(
    message: Message, receive_count: int, system_names: Sequence[str], names: Sequence[str]
) -> Answer:
    """A received message with the requested attributes; its receive count is approximate."""
    answer: Answer = {
        "MessageId": message.id,
        "ReceiptHandle": message.receipt_handle,
        "MD5OfBody": md5(message.body),
        "Body": message.body,
    }
    system = {
        "SenderId": "AIDAEXAMPLE",
        "SentTimestamp": str(round(message.sent_at * 1000)),
        "ApproximateReceiveCount": str(receive_count),
        "ApproximateFirstReceiveTimestamp": str(round(message.first_received_at * 1000)),
    }
    if message.group_id:
        system["MessageGroupId"] = message.group_id
    if message.source_arn:
        system["DeadLetterQueueSourceArn"] = message.source_arn
    if wanted := {
        name: value
        for name, value in system.items()
        if "All" in system_names or name in system_names
    }:
        answer["Attributes"] = wanted
    if asked := {
        name: dict(value) for name, value in message.attributes.items() if _is_asked(name, names)
    }:
        answer["MessageAttributes"] = asked
    return answer


def _is_asked(name: str, asked: Sequence[str]) -> bool:
    return any(
        each in (name, "All", ".*") or (each.endswith(".*") and name.startswith(each[:-1]))
        for each in asked
    )
