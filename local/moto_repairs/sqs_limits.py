"""A queue refuses what is too large.

AWS: at most ten message attributes; body and attributes (name, type, value) together within the queue's MaximumMessageSize in UTF-8 bytes. One bad entry of
a batch fails alone; a batch over 1 MiB fails whole.

Stock moto: any number of attributes, sizes counted in characters of the body alone, and one bad entry fails the batch.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.sqs import models
from moto.sqs.constants import MAXIMUM_MESSAGE_LENGTH
from moto.sqs.exceptions import BatchRequestTooLong, InvalidParameterValue, SQSException

from local.moto_repairs.patching import Patches

MAX_ATTRIBUTES = 10


def apply(patches: Patches) -> None:
    stock_send = models.SQSBackend.send_message
    stock_send_batch = models.SQSBackend.send_message_batch

    def send_message(
        backend: Any, queue_name: str, message_body: str, message_attributes: Any = None, **kwargs: Any
    ) -> Any:
        _refuse_over_limits(backend.get_queue(queue_name), message_body, message_attributes or {})
        return stock_send(backend, queue_name, message_body, message_attributes=message_attributes, **kwargs)

    def send_message_batch(
        backend: Any, queue_name: str, entries: dict[str, Any]
    ) -> tuple[list[Any], list[dict[str, Any]]]:
        queue = backend.get_queue(queue_name)
        total = sum(_size(entry["MessageBody"], entry.get("MessageAttributes") or {}) for entry in entries.values())
        if total > MAXIMUM_MESSAGE_LENGTH:
            raise BatchRequestTooLong(total)
        good: dict[str, Any] = {}
        failed: list[dict[str, Any]] = []
        for index, entry in entries.items():
            try:
                _refuse_over_limits(queue, entry["MessageBody"], entry.get("MessageAttributes") or {})
            except SQSException as error:
                failed.append({"Id": entry["Id"], "SenderFault": True, "Code": error.code, "Message": error.message})
            else:
                good[index] = entry
        if not good:
            return [], failed
        sent, failed_by_stock = stock_send_batch(backend, queue_name, good)
        return sent, failed + failed_by_stock

    patches.replace(models.SQSBackend, "send_message", send_message)
    patches.replace(models.SQSBackend, "send_message_batch", send_message_batch)


def _refuse_over_limits(queue: Any, body: str, attributes: dict[str, Any]) -> None:
    if len(attributes) > MAX_ATTRIBUTES:
        raise InvalidParameterValue(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [{MAX_ATTRIBUTES}]."
        )
    if _size(body, attributes) > queue.maximum_message_size:
        raise InvalidParameterValue(
            f"One or more parameters are invalid. Reason: Message must be shorter than {queue.maximum_message_size} bytes."
        )


def _size(body: str, attributes: dict[str, Any]) -> int:
    """Bytes that count towards the limits."""
    return len(body.encode()) + sum(
        len(name.encode())
        + len(value["DataType"].encode())
        + len(_bytes(value.get("StringValue") or value.get("BinaryValue") or ""))
        for name, value in attributes.items()
    )


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
