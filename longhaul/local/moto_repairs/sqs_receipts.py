"""A receipt handle belongs to one receive.

AWS: each receive gives a new handle. ChangeMessageVisibility needs the newest handle and a message
in flight (otherwise `MessageNotInflight`), and keeps a message invisible for at most 12 h from its
receive. DeleteMessage with an older handle returns 200 and deletes nothing. With the newest handle
it deletes, even after the visibility timeout.

Stock moto: every handle that a message ever had extends and deletes it, even after the visibility
timeout. The 12 h count from the send.

AWS does not document ChangeMessageVisibility with an older handle of a standard queue. It is
refused here, so a program that relies on it fails here first. FIFO queues are unchanged.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from typing import Any

from moto.core.utils import unix_time_millis
from moto.sqs import models
from moto.sqs.constants import MAXIMUM_VISIBILITY_TIMEOUT
from moto.sqs.exceptions import InvalidParameterValue, ReceiptHandleIsInvalid, SQSException

from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock_mark_received = models.Message.mark_received
    stock_change = models.SQSBackend.change_message_visibility
    stock_delete = models.Queue.delete_message

    def mark_received(message: Any, visibility_timeout: int | None = None) -> None:
        message.received_at_ms = unix_time_millis()
        stock_mark_received(message, visibility_timeout=visibility_timeout)

    def change_message_visibility(
        backend: Any, queue_name: str, receipt_handle: str, visibility_timeout: int
    ) -> None:
        queue = backend.get_queue(queue_name)
        if queue.fifo_queue:
            stock_change(backend, queue_name, receipt_handle, visibility_timeout)
            return
        _extend(queue, receipt_handle, int(visibility_timeout))

    def change_message_visibility_batch(
        backend: Any, queue_name: str, entries: list[dict[str, Any]]
    ) -> tuple[list[str], list[dict[str, Any]]]:
        done: list[str] = []
        failed: list[dict[str, Any]] = []
        for entry in entries:
            try:
                backend.change_message_visibility(
                    queue_name, entry["ReceiptHandle"], int(entry["VisibilityTimeout"])
                )
            except SQSException as error:
                failed.append(failed_entry(entry, error))
            else:
                done.append(entry["Id"])
        return done, failed

    def delete_message(queue: Any, receipt_handle: str) -> None:
        with queue._messages_lock:
            message = None if queue.fifo_queue else _message_of(queue, receipt_handle)
            if message is None or message.receipt_handle == receipt_handle:
                stock_delete(queue, receipt_handle)

    patches.replace(models.Message, "mark_received", mark_received)
    patches.replace(models.SQSBackend, "change_message_visibility", change_message_visibility)
    patches.replace(
        models.SQSBackend, "change_message_visibility_batch", change_message_visibility_batch
    )
    patches.replace(models.Queue, "delete_message", delete_message)


def failed_entry(entry: dict[str, Any], error: SQSException) -> dict[str, Any]:
    """What a batch answers for an entry that was refused alone."""
    return {
        "Id": entry["Id"],
        "SenderFault": True,
        "Code": error.code,
        "Message": error.message,
    }


def _extend(queue: Any, receipt_handle: str, visibility_timeout: int) -> None:
    with queue._messages_lock:
        message = _message_of(queue, receipt_handle)
        if message is None:
            raise ReceiptHandleIsInvalid
        if receipt_handle != message.receipt_handle or message.visible:
            raise SQSException(
                "AWS.SimpleQueueService.MessageNotInflight",
                "The specified message isn't in flight.",
            )
        if (
            unix_time_millis() + visibility_timeout * 1000
            > message.received_at_ms + MAXIMUM_VISIBILITY_TIMEOUT * 1000
        ):
            raise InvalidParameterValue(
                f"Value {visibility_timeout} for parameter VisibilityTimeout is invalid. "
                "Reason: Total VisibilityTimeout for the message is beyond the limit "
                f"[{MAXIMUM_VISIBILITY_TIMEOUT} seconds]"
            )
        message.change_visibility(visibility_timeout)
        queue._messages_lock.notify_all()


def _message_of(queue: Any, receipt_handle: str) -> Any:
    return next(
        (message for message in queue._messages if message.had_receipt_handle(receipt_handle)), None
    )
