from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.moto_repairs import sqs_limits
from tests.local.support import Moto

MIB = 1_048_576


@pytest.fixture
def sqs(moto: Moto, *, repaired: bool) -> Any:
    if repaired:
        sqs_limits.apply(moto.patches)
    return moto.client("sqs")


@pytest.fixture
def queue(sqs: Any) -> str:
    return str(sqs.create_queue(QueueName="jobs", Attributes={"MaximumMessageSize": str(MIB)})["QueueUrl"])


def accepted(sqs: Any, queue: str, body: str, attributes: dict[str, Any] | None = None) -> bool:
    try:
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=attributes or {})
    except ClientError as error:
        if error.response["Error"]["Code"] != "InvalidParameterValue":
            raise
        return False
    return True


def strings(count: int, value: str = "v") -> dict[str, Any]:
    return {f"a{number}": {"DataType": "String", "StringValue": value} for number in range(count)}


def test_body_of_exactly_one_mebibyte_is_accepted_and_one_byte_more_is_not(sqs: Any, queue: str) -> None:
    assert accepted(sqs, queue, "x" * MIB)
    assert not accepted(sqs, queue, "x" * (MIB + 1))


def test_eleventh_attribute_is_refused(sqs: Any, queue: str, *, repaired: bool) -> None:
    assert accepted(sqs, queue, "job", strings(10))
    assert accepted(sqs, queue, "job", strings(11)) is not repaired


def test_attributes_count_towards_the_size(sqs: Any, queue: str, *, repaired: bool) -> None:
    assert accepted(sqs, queue, "x" * (MIB - 50), strings(1, "y" * 100)) is not repaired


def test_size_is_counted_in_bytes(sqs: Any, queue: str, *, repaired: bool) -> None:
    assert accepted(sqs, queue, "é" * (MIB - 100)) is not repaired


def test_one_bad_entry_of_a_batch_fails_alone(sqs: Any, queue: str, *, repaired: bool) -> None:
    entries = [
        {"Id": "good", "MessageBody": "job"},
        {"Id": "bad", "MessageBody": "job", "MessageAttributes": strings(11)},
    ]

    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)

    assert [sent["Id"] for sent in answer["Successful"]] == (["good"] if repaired else ["good", "bad"])
    assert [failed["Id"] for failed in answer.get("Failed", [])] == (["bad"] if repaired else [])
