"""A receipt handle is worth what its receive is worth.

AWS: each receive gives a new handle. ChangeMessageVisibility needs the newest one and a message that is still in flight (`MessageNotInflight` otherwise),
and refuses to keep one receive invisible for longer than 12 h counted from that receive. DeleteMessage with an older handle answers 200 and deletes
nothing; with the newest one it deletes, lapsed or not.

Stock moto: every handle that a message ever had extends and deletes it, lapsed or not, and the 12 h run from the send.

What ChangeMessageVisibility does with an older handle of a standard queue is not documented; it is refused here, because a lease that relies on it is wrong.
FIFO queues are left alone: nothing here uses them.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from typing import Any

from moto.core.utils import unix_time_millis
from moto.sqs import models
from moto.sqs.constants import MAXIMUM_VISIBILITY_TIMEOUT
from moto.sqs.exceptions import InvalidParameterValue, ReceiptHandleIsInvalid, SQSException

from local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock_mark_received = models.Message.mark_received
    stock_change = models.SQSBackend.change_message_visibility
    stock_delete = models.Queue.delete_message

    def mark_received(message: Any, visibility_timeout: int | None = None) -> None:
        message.received_at_ms = unix_time_millis()
        stock_mark_received(message, visibility_timeout=visibility_timeout)

    def change_message_visibility(backend: Any, queue_name: str, receipt_handle: str, visibility_timeout: int) -> None:
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
                backend.change_message_visibility(queue_name, entry["ReceiptHandle"], int(entry["VisibilityTimeout"]))
            except SQSException as error:
                failed.append({"Id": entry["Id"], "SenderFault": True, "Code": error.code, "Message": error.message})
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
    patches.replace(models.SQSBackend, "change_message_visibility_batch", change_message_visibility_batch)
    patches.replace(models.Queue, "delete_message", delete_message)


def _extend(queue: Any, receipt_handle: str, visibility_timeout: int) -> None:
    with queue._messages_lock:
        message = _message_of(queue, receipt_handle)
        if message is None:
            raise ReceiptHandleIsInvalid
        if receipt_handle != message.receipt_handle or message.visible:
            raise SQSException("AWS.SimpleQueueService.MessageNotInflight", "The specified message isn't in flight.")
        if unix_time_millis() + visibility_timeout * 1000 > message.received_at_ms + MAXIMUM_VISIBILITY_TIMEOUT * 1000:
            raise InvalidParameterValue(
                f"Value {visibility_timeout} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message "
                f"is beyond the limit [{MAXIMUM_VISIBILITY_TIMEOUT} seconds]"
            )
        message.change_visibility(visibility_timeout)
        queue._messages_lock.notify_all()


def _message_of(queue: Any, receipt_handle: str) -> Any:
    return next((message for message in queue._messages if message.had_receipt_handle(receipt_handle)), None)
