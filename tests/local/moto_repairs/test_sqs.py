from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.awslambda.models import EventSourceMapping, LambdaBackend
from moto.sqs import models
from moto.sqs.models import sqs_backends

from longhaul.local.moto_repairs import sqs as sqs_repairs
from tests.local.support import ACCOUNT, REGION, Moto, error_code
from tests.patience import DEADLINE_S


@pytest.fixture
def sqs(moto: Moto, *, repaired: bool) -> Any:
    if repaired:
        sqs_repairs.receipts(moto.patches)
    return moto.client("sqs")


@pytest.fixture
def queue(sqs: Any) -> str:
    url: str = sqs.create_queue(QueueName="jobs", Attributes={"VisibilityTimeout": "600"})[
        "QueueUrl"
    ]
    sqs.send_message(QueueUrl=url, MessageBody="job")
    return url


def receive(sqs: Any, queue: str) -> str:
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    return str(message["ReceiptHandle"])


def message_in_moto() -> Any:
    (message,) = sqs_backends[ACCOUNT][REGION].queues["jobs"]._messages
    return message


def extend(sqs: Any, queue: str, handle: str, visibility_s: int = 600) -> str:
    try:
        sqs.change_message_visibility(
            QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=visibility_s
        )
    except ClientError as error:
        return error_code(error)
    return "ok"


def test_twelve_hours_count_from_the_receive(sqs: Any, queue: str, *, repaired: bool) -> None:
    handle = receive(sqs, queue)
    message = message_in_moto()
    eleven_hours_ms = 11 * 3_600_000
    message.sent_timestamp -= 48 * 3_600_000
    message.received_at_ms = getattr(message, "received_at_ms", 0) - eleven_hours_ms

    # Sent two days ago, received eleven hours ago: 59 more minutes are allowed, 61 are not.
    assert extend(sqs, queue, handle, 59 * 60) == ("ok" if repaired else "InvalidParameterValue")
    assert extend(sqs, queue, handle, 61 * 60) == "InvalidParameterValue"


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


def test_sending_a_message_invokes_nothing(moto: Moto, monkeypatch: Any, *, repaired: bool) -> None:
    if repaired:
        sqs_repairs.trigger(moto.patches)
    invoked: list[str] = []
    monkeypatch.setattr(
        LambdaBackend, "send_sqs_batch", lambda _backend, arn, *_rest: invoked.append(arn)
    )
    backend: Any = models.sqs_backends["123456789012"]["us-east-1"]
    queue = backend.create_queue("jobs")
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
