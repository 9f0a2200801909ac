"""A queue refuses a message that is too large or has contents that SQS does not take.

AWS: a message has at most ten attributes. Its body and attributes (name, type, value) together are
at most the queue's MaximumMessageSize in UTF-8 bytes. One bad entry of a batch fails alone, and a
batch over 1 MiB fails whole. The body is not empty and has only characters that XML 1.0 allows. An
attribute has a value. A message group has only letters, digits and punctuation. A queue keeps
messages for at least a minute and at most 14 days.

Stock moto: takes any number of attributes, any characters, groups and retention, and counts the
characters of the body alone. One bad entry fails the whole batch.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import re
from typing import Any

from moto.sqs import models
from moto.sqs.constants import MAXIMUM_MESSAGE_LENGTH
from moto.sqs.exceptions import (
    BatchRequestTooLong,
    InvalidAttributeValue,
    InvalidParameterValue,
    MissingParameter,
    SQSException,
)

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.moto_repairs.sqs_receipts import failed_entry

MAX_ATTRIBUTES = 10
RETENTION_S = (60, 14 * 24 * 3600)
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
_NOT_ALLOWED = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GROUP = re.compile(r"""[A-Za-z0-9!"#$%&'()*+,./:;<=>?@\[\\\]^_`{|}~-]{1,128}""")


def apply(patches: Patches) -> None:
    stock_set_attributes = models.Queue._set_attributes
    stock_send = models.SQSBackend.send_message
    stock_send_batch = models.SQSBackend.send_message_batch

    def send_message(
        backend: Any,
        queue_name: str,
        message_body: str,
        message_attributes: Any = None,
        **kwargs: Any,
    ) -> Any:
        attributes = message_attributes or {}
        _refuse_over_limits(backend.get_queue(queue_name), message_body, attributes)
        _refuse_contents(message_body, attributes, kwargs.get("group_id"))
        return stock_send(
            backend, queue_name, message_body, message_attributes=message_attributes, **kwargs
        )

    def send_message_batch(
        backend: Any, queue_name: str, entries: dict[str, Any]
    ) -> tuple[list[Any], list[dict[str, Any]]]:
        queue = backend.get_queue(queue_name)
        total = sum(
            _size(entry["MessageBody"], entry.get("MessageAttributes") or {})
            for entry in entries.values()
        )
        if total > MAXIMUM_MESSAGE_LENGTH:
            raise BatchRequestTooLong(total)
        good: dict[str, Any] = {}
        failed: list[dict[str, Any]] = []
        for index, entry in entries.items():
            try:
                attributes = entry.get("MessageAttributes") or {}
                _refuse_over_limits(queue, entry["MessageBody"], attributes)
                _refuse_contents(entry["MessageBody"], attributes, entry.get("MessageGroupId"))
            except SQSException as error:
                failed.append(failed_entry(entry, error))
            else:
                good[index] = entry
        if not good:
            return [], failed
        sent, failed_by_stock = stock_send_batch(backend, queue_name, good)
        return sent, failed + failed_by_stock

    def set_attributes(queue: Any, attributes: dict[str, Any], now: float | None = None) -> None:
        retention = attributes.get("MessageRetentionPeriod")
        if retention is not None and not RETENTION_S[0] <= int(retention) <= RETENTION_S[1]:
            raise InvalidAttributeValue("MessageRetentionPeriod")
        stock_set_attributes(queue, attributes, now)

    patches.replace(models.Queue, "_set_attributes", set_attributes)
    patches.replace(models.SQSBackend, "send_message", send_message)
    patches.replace(models.SQSBackend, "send_message_batch", send_message_batch)


def _refuse_over_limits(queue: Any, body: str, attributes: dict[str, Any]) -> None:
    if len(attributes) > MAX_ATTRIBUTES:
        raise InvalidParameterValue(
            f"Number of message attributes [{len(attributes)}] "
            f"exceeds the allowed maximum [{MAX_ATTRIBUTES}]."
        )
    if _size(body, attributes) > queue.maximum_message_size:
        raise InvalidParameterValue(
            "One or more parameters are invalid. "
            f"Reason: Message must be shorter than {queue.maximum_message_size} bytes."
        )


def _refuse_contents(body: str, attributes: dict[str, Any], group_id: str | None) -> None:
    if not body:
        raise MissingParameter("MessageBody")
    if _NOT_ALLOWED.search(body):
        raise SQSException(
            "InvalidMessageContents", "The message contains characters outside the allowed set."
        )
    for name, value in attributes.items():
        if not (value.get("StringValue") or value.get("BinaryValue")):
            raise InvalidParameterValue(f"The message attribute '{name}' has an empty value.")
    if group_id is not None and not _GROUP.fullmatch(group_id):
        raise InvalidParameterValue("The message group is invalid: 1 to 128 letters, digits, …")


def _size(body: str, attributes: dict[str, Any]) -> int:
    """The bytes that count towards the limits."""
    return len(body.encode()) + sum(
        len(name.encode())
        + len(value["DataType"].encode())
        + len(_bytes(value.get("StringValue") or value.get("BinaryValue") or ""))
        for name, value in attributes.items()
    )


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
