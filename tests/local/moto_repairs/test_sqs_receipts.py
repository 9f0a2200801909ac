from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.sqs.models import sqs_backends

from longhaul.local.moto_repairs import sqs_receipts
from tests.local.support import ACCOUNT, REGION, Moto, error_code

NOT_IN_FLIGHT = "AWS.SimpleQueueService.MessageNotInflight"


@pytest.fixture
def sqs(moto: Moto, *, repaired: bool) -> Any:
    if repaired:
        sqs_receipts.apply(moto.patches)
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


def in_flight(sqs: Any, queue: str) -> int:
    names = ["ApproximateNumberOfMessagesNotVisible"]
    return int(
        sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"][names[0]]
    )


def test_current_handle_extends_and_deletes(sqs: Any, queue: str) -> None:
    handle = receive(sqs, queue)

    assert extend(sqs, queue, handle) == "ok"
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)

    assert in_flight(sqs, queue) == 0


def test_handle_does_not_extend_after_the_visibility_timeout(
    sqs: Any, queue: str, *, repaired: bool
) -> None:
    handle = receive(sqs, queue)
    message_in_moto().visible_at = 0

    assert extend(sqs, queue, handle) == (NOT_IN_FLIGHT if repaired else "ok")


def test_handle_of_an_earlier_receive_neither_extends_nor_deletes(
    sqs: Any, queue: str, *, repaired: bool
) -> None:
    old = receive(sqs, queue)
    extend(sqs, queue, old, 0)
    receive(sqs, queue)

    assert extend(sqs, queue, old) == (NOT_IN_FLIGHT if repaired else "ok")
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=old)

    assert in_flight(sqs, queue) == (1 if repaired else 0)


def test_twelve_hours_count_from_the_receive(sqs: Any, queue: str, *, repaired: bool) -> None:
    handle = receive(sqs, queue)
    message = message_in_moto()
    eleven_hours_ms = 11 * 3_600_000
    message.sent_timestamp -= 48 * 3_600_000
    message.received_at_ms = getattr(message, "received_at_ms", 0) - eleven_hours_ms

    # Sent two days ago, received eleven hours ago: 59 more minutes are allowed, 61 are not.
    assert extend(sqs, queue, handle, 59 * 60) == ("ok" if repaired else "InvalidParameterValue")
    assert extend(sqs, queue, handle, 61 * 60) == "InvalidParameterValue"


def test_one_bad_entry_of_a_batch_fails_alone(sqs: Any, queue: str, *, repaired: bool) -> None:
    lapsed = receive(sqs, queue)
    message_in_moto().visible_at = 0
    sqs.send_message(QueueUrl=queue, MessageBody="another")
    entries = [{"Id": "lapsed", "ReceiptHandle": lapsed, "VisibilityTimeout": 60}]

    response = sqs.change_message_visibility_batch(QueueUrl=queue, Entries=entries)

    assert [failed["Code"] for failed in response.get("Failed", [])] == (
        [NOT_IN_FLIGHT] if repaired else []
    )
