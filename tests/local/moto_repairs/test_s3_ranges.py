from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.s3.models import FakeKey

from longhaul.local.credentials import aws_client
from longhaul.local.moto_repairs import s3 as s3_repairs
from tests.local.support import REGION, Moto, error_code

BODY = b"0123456789"


@pytest.fixture
def s3(moto: Moto, *, repaired: bool) -> Any:
    if repaired:
        s3_repairs.ranges(moto.patches)
    client = aws_client("s3", endpoint=moto.endpoint, region=REGION)
    client.create_bucket(Bucket="data")
    client.put_object(Bucket="data", Key="file", Body=BODY)
    client.put_object(Bucket="data", Key="empty", Body=b"")
    return client


def test_part_of_an_object_is_read_alone(s3: Any, moto: Moto, *, repaired: bool) -> None:
    whole = FakeKey.value
    reads: list[FakeKey] = []

    def value(key: FakeKey) -> bytes:
        reads.append(key)
        return whole.fget(key)  # type: ignore[attr-defined]  # a property

    moto.patches.replace(FakeKey, "value", whole.getter(value))  # type: ignore[attr-defined]

    got = s3.get_object(Bucket="data", Key="file", Range="bytes=2-4")

    assert got["Body"].read() == b"234"
    assert got["ContentRange"] == "bytes 2-4/10"
    assert len(reads) == (0 if repaired else 1)


@pytest.mark.parametrize(
    ("asked", "body"),
    [
        ("bytes=0-0", b"0"),
        ("bytes=7-", b"789"),
        ("bytes=7-99", b"789"),
        ("bytes=-3", b"789"),
        ("bytes=-99", BODY),
        ("bytes=5-2", BODY),
        ("bytes=-", BODY),
        ("bytes=1-2,4-5", BODY),
        ("lines=1-2", b"12"),
    ],
)
def test_ranges_are_as_before(s3: Any, asked: str, body: bytes) -> None:
    assert s3.get_object(Bucket="data", Key="file", Range=asked)["Body"].read() == body


@pytest.mark.parametrize(("key", "asked"), [("file", "bytes=10-"), ("empty", "bytes=0-3")])
def test_range_beyond_the_end_is_refused(s3: Any, key: str, asked: str) -> None:
    with pytest.raises(ClientError) as refused:
        s3.get_object(Bucket="data", Key=key, Range=asked)
    assert error_code(refused.value) == "InvalidRange"
