from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from threading import Barrier, Event
from typing import Any

import pytest
from moto.awslambda.models import EventSourceMapping, LambdaBackend
from moto.sqs import models
from moto.sqs.exceptions import InvalidParameterValue

from longhaul.local.moto_repairs import sqs as sqs_repairs
from tests.local.support import ACCOUNT, REGION, Moto, mends
from tests.patience import DEADLINE_S


@pytest.fixture
def backend(moto: Moto) -> Any:
    """Moto's SQS, with a message in the queue `jobs`."""
    del moto  # which empties it
    found: Any = models.sqs_backends[ACCOUNT][REGION]
    found.create_queue("jobs")
    found.send_message("jobs", "job")
    return found


@mends(sqs_repairs.receipts)
def test_twelve_hours_count_from_the_receive(backend: Any, *, repaired: bool) -> None:
    (received,) = backend.receive_message("jobs", 1, 0, 600)
    (message,) = backend.queues["jobs"]._messages
    eleven_hours_ms = 11 * 3_600_000
    message.sent_timestamp -= 48 * 3_600_000
    message.received_at_ms = getattr(message, "received_at_ms", 0) - eleven_hours_ms

    # Sent two days ago, received eleven hours ago: 59 more minutes are allowed, 61 are not.
    for minutes, is_allowed in ((59, repaired), (61, False)):
        with nullcontext() if is_allowed else pytest.raises(InvalidParameterValue):
            backend.change_message_visibility("jobs", received.receipt_handle, minutes * 60)


RECEIVE = partial(sqs_repairs.receive, closing=Event())
LONG_POLL_S = 2 * DEADLINE_S  # longer than a test waits for its end


@mends(RECEIVE)
def test_two_receives_at_once_never_get_one_message(
    backend: Any, monkeypatch: Any, *, repaired: bool
) -> None:
    queue = backend.queues["jobs"]
    together = Barrier(2)
    stock_visible = vars(models.Message)["visible"].fget

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


@mends(RECEIVE)
def test_long_poll_waits_until_the_next_message_is_visible(backend: Any, *, repaired: bool) -> None:
    queue = backend.queues["jobs"]
    waits: list[float] = []

    def wait(timeout: float) -> None:
        waits.append(timeout)
        queue._messages[0].visible_at = 0

    queue._messages_lock.wait = wait
    backend.receive_message("jobs", 1, 0, 10)

    assert len(backend.receive_message("jobs", 1, 20, 600)) == 1

    # Repaired moto waits for the visibility timeout, stock moto for a second.
    assert (waits[0] > 9) is repaired


def test_changed_visibility_wakes_a_long_poll(moto: Moto, backend: Any) -> None:
    moto.apply(RECEIVE, sqs_repairs.receipts)
    (message,) = backend.receive_message("jobs", 1, 0, 600)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(backend.receive_message, "jobs", 1, LONG_POLL_S, 600)
        backend.change_message_visibility("jobs", message.receipt_handle, 0)

        assert [again.body for again in waiting.result(DEADLINE_S)] == ["job"]


def test_closing_ends_a_long_poll(moto: Moto, backend: Any) -> None:
    closing = Event()
    sqs_repairs.receive(moto.patches, closing)
    backend.receive_message("jobs", 1, 0, 600)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(backend.receive_message, "jobs", 1, LONG_POLL_S, 600)
        closing.set()
        while not waiting.done():
            sqs_repairs.wake_long_polls()

        assert waiting.result(DEADLINE_S) == []


@mends(sqs_repairs.trigger)
def test_sending_a_message_invokes_nothing(
    backend: Any, monkeypatch: Any, *, repaired: bool
) -> None:
    invoked: list[str] = []
    monkeypatch.setattr(
        LambdaBackend, "send_sqs_batch", lambda _backend, arn, *_rest: invoked.append(arn)
    )
    queue = backend.queues["jobs"]
    mapping = EventSourceMapping(  # type: ignore[abstract]  # moto makes it too
        {
            "RegionName": "us-east-1",
            "AccountId": "123456789012",
            "FunctionName": "handler",
            "FunctionArn": "arn:handler",
            "EventSourceArn": queue.queue_arn,
        }
    )
    queue.lambda_event_source_mappings["arn:handler"] = mapping

    backend.send_message("jobs", "job")

    assert invoked == ([] if repaired else ["arn:handler"])
