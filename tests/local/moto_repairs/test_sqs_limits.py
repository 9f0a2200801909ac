from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.local.moto_repairs import sqs_limits
from tests.local.support import Moto, error_code

MIB = 1_048_576


@pytest.fixture
def sqs(moto: Moto, *, repaired: bool) -> Any:
    if repaired:
        sqs_limits.apply(moto.patches)
    return moto.client("sqs")


@pytest.fixture
def queue(sqs: Any) -> str:
    return str(
        sqs.create_queue(QueueName="jobs", Attributes={"MaximumMessageSize": str(MIB)})["QueueUrl"]
    )


def accepted(sqs: Any, queue: str, body: str, attributes: dict[str, Any] | None = None) -> bool:
    try:
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=attributes or {})
    except ClientError as error:
        if error_code(error) != "InvalidParameterValue":
            raise
        return False
    return True


def strings(count: int, value: str = "v") -> dict[str, Any]:
    return {f"a{number}": {"DataType": "String", "StringValue": value} for number in range(count)}


def test_body_of_exactly_one_mebibyte_is_accepted_and_one_byte_more_is_not(
    sqs: Any, queue: str
) -> None:
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

    response = sqs.send_message_batch(QueueUrl=queue, Entries=entries)

    assert [sent["Id"] for sent in response["Successful"]] == (
        ["good"] if repaired else ["good", "bad"]
    )
    assert [failed["Id"] for failed in response.get("Failed", [])] == (["bad"] if repaired else [])


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"MessageBody": ""}, "MissingParameter"),
        ({"MessageBody": "a\x00b"}, "InvalidMessageContents"),
        ({"MessageAttributes": strings(1, "")}, "InvalidParameterValue"),
        ({"MessageGroupId": "a b"}, "InvalidParameterValue"),
        ({"MessageGroupId": "a-b_c.1"}, None),
        ({"MessageBody": "a\tb\né\U0001f600"}, None),
    ],
)
def test_contents_that_sqs_does_not_take_are_refused(
    sqs: Any, queue: str, sent: dict[str, Any], code: str | None, *, repaired: bool
) -> None:
    found = None
    try:
        sqs.send_message(QueueUrl=queue, **{"MessageBody": "job", **sent})
    except ClientError as error:
        found = error_code(error)
    assert found == (code if repaired else None)


@pytest.mark.parametrize("seconds", [59, 14 * 86_400 + 1])
def test_retention_out_of_range_is_refused(sqs: Any, *, seconds: int, repaired: bool) -> None:
    attributes = {"MessageRetentionPeriod": str(seconds)}
    if not repaired:
        sqs.create_queue(QueueName="short", Attributes=attributes)
        return
    with pytest.raises(ClientError, match="MessageRetentionPeriod"):
        sqs.create_queue(QueueName="short", Attributes=attributes)
