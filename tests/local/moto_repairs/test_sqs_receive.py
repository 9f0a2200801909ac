from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

from moto.sqs import models

from longhaul.local.moto_repairs import sqs as sqs_repairs
from tests.local.support import Moto
from tests.patience import DEADLINE_S

LONG_POLL_S = 2 * DEADLINE_S  # longer than a test waits for its end


def test_two_receives_at_once_never_get_one_message(
    moto: Moto, monkeypatch: Any, *, repaired: bool
) -> None:
    if repaired:
        sqs_repairs.receive(moto.patches, Event())
    backend: Any = models.sqs_backends["123456789012"]["us-east-1"]
    queue = backend.create_queue("jobs")
    backend.send_message("jobs", "job")
    together = Barrier(2)
    stock_visible = models.Message.visible.fget

    def visible(message: Any) -> bool:
        is_visible: bool = stock_visible(message)
        # Without a lock, both receives look at the message before either takes it.
        if is_visible and queue._messages_lock.acquire(blocking=False):
            queue._messages_lock.release()
            if not repaired:
                together.wait(30)
        return is_visible

    monkeypatch.setattr(models.Message, "visible", property(visible))
    with ThreadPoolExecutor(2) as pool:
        received = [
            got
            for each in pool.map(lambda _: backend.receive_message("jobs", 1, 0, 600), range(2))
            for got in each
        ]

    assert Counter(message.body for message in received)["job"] == (1 if repaired else 2)


def test_long_poll_waits_until_the_next_message_is_visible(moto: Moto, *, repaired: bool) -> None:
    if repaired:
        sqs_repairs.receive(moto.patches, Event())
    backend: Any = models.sqs_backends["123456789012"]["us-east-1"]
    queue = backend.create_queue("jobs")
    backend.send_message("jobs", "job")
    waits: list[float] = []

    def wait(timeout: float) -> None:
        waits.append(timeout)
        queue._messages[0].visible_at = 0

    queue._messages_lock.wait = wait
    backend.receive_message("jobs", 1, 0, 10)

    assert len(backend.receive_message("jobs", 1, 20, 600)) == 1

    # Repaired moto waits for the visibility timeout, stock moto for a second.
    assert (waits[0] > 9) is repaired


def test_changed_visibility_wakes_a_long_poll(moto: Moto) -> None:
    sqs_repairs.receive(moto.patches, Event())
    sqs_repairs.receipts(moto.patches)
    backend: Any = models.sqs_backends["123456789012"]["us-east-1"]
    backend.create_queue("jobs")
    backend.send_message("jobs", "job")
    (message,) = backend.receive_message("jobs", 1, 0, 600)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(backend.receive_message, "jobs", 1, LONG_POLL_S, 600)
        backend.change_message_visibility("jobs", message.receipt_handle, 0)

        assert [again.body for again in waiting.result(DEADLINE_S)] == ["job"]


def test_closing_ends_a_long_poll(moto: Moto) -> None:
    closing = Event()
    sqs_repairs.receive(moto.patches, closing)
    backend: Any = models.sqs_backends["123456789012"]["us-east-1"]
    backend.create_queue("jobs")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(backend.receive_message, "jobs", 1, LONG_POLL_S, 600)
        closing.set()
        while not waiting.done():
            sqs_repairs.wake_long_polls()

        assert waiting.result(DEADLINE_S) == []
