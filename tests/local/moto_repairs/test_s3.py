import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.events.models import EventsBackend
from moto.s3.models import FakeKey, S3Backend

from longhaul.local.moto_repairs import s3 as s3_repairs
from tests.local.support import Moto, error_code, mends

BODY = b"0123456789"
WITH_EVENTS = {
    "Type": "AWS::S3::Bucket",
    "Properties": {
        "NotificationConfiguration": {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    },
}


@pytest.fixture
def s3(moto: Moto, *, repaired: bool) -> Any:
    del repaired  # it is by now
    client = moto.client("s3")
    client.create_bucket(Bucket="data")
    client.put_object(Bucket="data", Key="file", Body=BODY)
    client.put_object(Bucket="data", Key="empty", Body=b"")
    return client


@mends(s3_repairs.conditional)
def test_of_two_writers_of_an_absent_key_one_wins(s3: Any, race: Any, *, repaired: bool) -> None:
    def write(_: int) -> None:
        s3.put_object(Bucket="data", Key="key", Body=b"{}", IfNoneMatch="*")

    answers = race(S3Backend, "get_object", write)
    assert answers == (["PreconditionFailed", "ok"] if repaired else ["ok", "ok"])


@mends(s3_repairs.events)
def test_an_object_in_a_bucket_of_a_template_is_an_event(moto: Moto, *, repaired: bool) -> None:
    events: list[dict[str, Any]] = []
    moto.patches.replace(EventsBackend, "put_events", lambda _, more: events.extend(more))
    moto.client("cloudformation").create_stack(
        StackName="data", TemplateBody=json.dumps({"Resources": {"Data": WITH_EVENTS}})
    )
    s3 = moto.client("s3")
    (bucket,) = (each["Name"] for each in s3.list_buckets()["Buckets"])

    etag = s3.put_object(Bucket=bucket, Key="in/a b+ü.wav", Body=b"sound")["ETag"]
    s3.delete_object(Bucket=bucket, Key="in/a b+ü.wav")

    if not repaired:
        assert events == []
        return
    (event,) = events
    assert (event["Source"], event["DetailType"]) == ("aws.s3", "Object Created")
    detail = json.loads(event["Detail"])
    assert detail["bucket"]["name"] == bucket
    assert detail["object"]["key"] == "in/a b+ü.wav"
    assert detail["object"]["etag"] == etag.strip('"')


@mends(s3_repairs.ranges)
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


@mends(s3_repairs.ranges)
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


@mends(s3_repairs.ranges)
@pytest.mark.parametrize(("key", "asked"), [("file", "bytes=10-"), ("empty", "bytes=0-3")])
def test_range_beyond_the_end_is_refused(s3: Any, key: str, asked: str) -> None:
    with pytest.raises(ClientError) as refused:
        s3.get_object(Bucket="data", Key=key, Range=asked)
    assert error_code(refused.value) == "InvalidRange"
