from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.sqs.models import sqs_backends

from longhaul.local.moto_repairs import sqs as sqs_repairs
from tests.local.support import ACCOUNT, REGION, Moto, error_code


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
