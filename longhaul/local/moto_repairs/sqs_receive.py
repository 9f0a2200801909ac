"""A receive is atomic, and a long poll returns as soon as a message is visible.

AWS: a message goes to one receive only. A long poll returns as soon as a message is visible, also
when its visibility timeout or its delay ends, or its visibility timeout is changed.

Stock moto: two concurrent receives can both get one message, and a long poll looks only once a
second.

FIFO queues are unchanged.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import time
from copy import deepcopy
from threading import Event
from typing import Any

from moto.core.utils import unix_time_millis
from moto.sqs import models

from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches, closing: Event) -> None:
    """Repair receives.

    Args:
        patches: takes the replaced attributes.
        closing: ends long polls early. Otherwise they outlive the embedded AWS by up to 20 s.
    """
    stock_receive = models.SQSBackend.receive_message

    def receive_message(
        backend: Any,
        queue_name: str,
        count: int,
        wait_seconds_timeout: int,
        visibility_timeout: int,
        message_attribute_names: list[str] | None = None,
    ) -> list[Any]:
        queue = backend.get_queue(queue_name)
        if queue.fifo_queue:
            return list(
                stock_receive(
                    backend,
                    queue_name,
                    count,
                    wait_seconds_timeout,
                    visibility_timeout,
                    message_attribute_names,
                )
            )
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

    patches.replace(models.SQSBackend, "receive_message", receive_message)


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
