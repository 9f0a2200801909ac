"""Repairs of SQS."""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import time
from copy import deepcopy
from threading import Event
from typing import Any

from moto.core.utils import unix_time_millis
from moto.sqs import models
from moto.sqs.constants import MAXIMUM_VISIBILITY_TIMEOUT
from moto.sqs.exceptions import InvalidParameterValue, ReceiptHandleIsInvalid, SQSException

from longhaul.local.moto_repairs.patching import Patches


def receipts(patches: Patches) -> None:
    """A receipt handle belongs to one receive.

    AWS: each receive gives a new handle. ChangeMessageVisibility needs the newest handle and a
    message in flight (otherwise `MessageNotInflight`), and keeps a message invisible for at most 12
    h from its receive. DeleteMessage with an older handle returns 200 and deletes nothing. With the
    newest handle it deletes, even after the visibility timeout.

    Stock moto: every handle that a message ever had extends and deletes it, even after the
    visibility timeout. The 12 h count from the send.

    AWS does not document ChangeMessageVisibility with an older handle of a standard queue. It is
    refused here, so a program that relies on it fails here first.
    """
    stock_mark_received = models.Message.mark_received
    stock_delete = models.Queue.delete_message

    @patches.replacing(models.Message, "mark_received")
    def mark_received(message: Any, visibility_timeout: int | None = None) -> None:
        message.received_at_ms = unix_time_millis()
        stock_mark_received(message, visibility_timeout=visibility_timeout)

    @patches.replacing(models.SQSBackend, "change_message_visibility")
    def change_message_visibility(
        backend: Any, queue_name: str, receipt_handle: str, visibility_timeout: int
    ) -> None:
        queue = backend.get_queue(queue_name)
        _extend(queue, receipt_handle, int(visibility_timeout))

    @patches.replacing(models.Queue, "delete_message")
    def delete_message(queue: Any, receipt_handle: str) -> None:
        with queue._messages_lock:
            message = _message_of(queue, receipt_handle)
            if message is None or message.receipt_handle == receipt_handle:
                stock_delete(queue, receipt_handle)


class _NotInFlight(ReceiptHandleIsInvalid):
    """A batch of moto's passes over entries with the error that this is a kind of."""

    def __init__(self) -> None:
        SQSException.__init__(
            self,
            "AWS.SimpleQueueService.MessageNotInflight",
            "The specified message isn't in flight.",
        )


def _extend(queue: Any, receipt_handle: str, visibility_timeout: int) -> None:
    with queue._messages_lock:
        message = _message_of(queue, receipt_handle)
        if message is None:
            raise ReceiptHandleIsInvalid
        if receipt_handle != message.receipt_handle or message.visible:
            raise _NotInFlight
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


def receive(patches: Patches, closing: Event) -> None:
    """A receive is atomic, and a long poll returns as soon as a message is visible.

    AWS: a message goes to one receive only. A long poll returns as soon as a message is visible,
    also when its visibility timeout or its delay ends, or its visibility timeout is changed.

    Stock moto: two concurrent receives can both get one message, and a long poll looks only once a
    second.

    Args:
        patches: takes the replaced attributes.
        closing: ends long polls early. Otherwise they outlive the embedded AWS by up to 20 s.
    """

    @patches.replacing(models.SQSBackend, "receive_message")
    def receive_message(
        backend: Any,
        queue_name: str,
        count: int,
        wait_seconds_timeout: int,
        visibility_timeout: int,
        message_attribute_names: list[str] | None = None,
    ) -> list[Any]:
        queue = backend.get_queue(queue_name)
        deadline = time.monotonic() + wait_seconds_timeout
        with queue._messages_lock:
            while True:
                _forget_expired(queue)
                taken = _take(queue, count, visibility_timeout)
                left_s = deadline - time.monotonic()
                if taken or left_s <= 0 or closing.is_set():
                    break
                queue._messages_lock.wait(min(left_s, _until_next_visible_s(queue)))
            received = [deepcopy(message) for message in taken]
        for message in received:
            models._filter_message_attributes(message, message_attribute_names or [])
        return received


def wake_long_polls() -> None:
    """Wake every long poll, so that it looks at `closing`."""
    for account in models.sqs_backends.values():
        for backend in account.values():
            for queue in backend.queues.values():
                with queue._messages_lock:
                    queue._messages_lock.notify_all()


def _forget_expired(queue: Any) -> None:
    oldest_ms = unix_time_millis() - queue.message_retention_period * 1000
    queue._messages = [message for message in queue._messages if message.sent_timestamp > oldest_ms]


def _take(queue: Any, count: int, visibility_timeout: int) -> list[Any]:
    taken: list[Any] = []
    for message in queue.messages:
        if len(taken) == count:
            break
        if (
            queue.redrive_policy
            and message.approximate_receive_count >= queue.redrive_policy["maxReceiveCount"]
        ):
            queue._messages.remove(message)
            queue.dead_letter_queue.add_message(message)
            continue
        message.mark_received(visibility_timeout=visibility_timeout)
        taken.append(message)
    return taken


def _until_next_visible_s(queue: Any) -> float:
    now_ms = unix_time_millis()
    # One millisecond more, because moto's `visible` needs the instant to be past.
    return (
        min(
            (
                max(message.visible_at, message.delayed_until) - now_ms + 1
                for message in queue._messages
            ),
            default=3_600_000,
        )
        / 1000
    )


def trigger(patches: Patches) -> None:
    """SendMessage only sends.

    AWS: an event source mapping polls the queue by itself.

    Stock moto: SendMessage itself receives a batch, calls the function, and deletes the batch even
    when the function reports failures. `esm_poller` drives the mappings instead, so the queue must
    not know of them.
    """
    # A property with a setter, because moto's constructor assigns the attribute. It returns a new
    # mapping each time, because the Lambda backend adds to it.
    no_mappings = property(lambda _queue: {}, lambda _queue, _value: None)
    patches.replace(models.Queue, "lambda_event_source_mappings", no_mappings)
