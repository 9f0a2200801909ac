"""The strict S3 refuses what S3 refuses, above all for multipart uploads."""

from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest

from simulation.aws.cloud import FakeAws
from simulation.aws.s3.client import FakeS3
from simulation.aws.s3.completion import Completion, Meanwhile
from tests.contract.refusals import refused

MIB = 1024 * 1024


@pytest.fixture
def s3(fake: FakeAws) -> FakeS3:
    fake.s3.create_bucket(Bucket="data")
    return fake.s3


def begin(s3: FakeS3, **more: Any) -> dict[str, str]:
    begun = s3.create_multipart_upload(
        Bucket="data", Key="out/a", **{"ChecksumAlgorithm": "CRC32", **more}
    )
    upload = begun["UploadId"]
    return {"Bucket": "data", "Key": "out/a", "UploadId": upload}


def part(s3: FakeS3, upload: dict[str, str], number: int, body: bytes) -> dict[str, Any]:
    response = s3.upload_part(**upload, PartNumber=number, Body=body, ChecksumAlgorithm="CRC32")
    return {
        "PartNumber": number,
        "ETag": response["ETag"],
        "ChecksumCRC32": response["ChecksumCRC32"],
    }


def complete(s3: FakeS3, upload: dict[str, str], *parts: dict[str, Any]) -> dict[str, Any]:
    return dict(s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": list(parts)}))


def test_upload_is_visible_whole_once_completed_and_not_before(s3: FakeS3) -> None:
    upload = begin(s3, Metadata={"kind": "t"})
    parts = [part(s3, upload, 1, b"x" * 5 * MIB), part(s3, upload, 2, b"y")]
    with refused("404"):
        s3.head_object(Bucket="data", Key="out/a")
    etag = complete(s3, upload, *parts)["ETag"]
    head = s3.head_object(Bucket="data", Key="out/a")
    assert (head["ETag"], head["ContentLength"], head["Metadata"]) == (
        etag,
        5 * MIB + 1,
        {"kind": "t"},
    )
    assert etag.endswith('-2"')
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="data")


@pytest.mark.parametrize("end", ["completed", "aborted"])
def test_ended_upload_no_longer_exists(s3: FakeS3, end: str) -> None:
    upload = begin(s3)
    only = part(s3, upload, 1, b"x")
    if end == "completed":
        complete(s3, upload, only)
    else:
        s3.abort_multipart_upload(**upload)
    with refused("NoSuchUpload"):
        s3.abort_multipart_upload(**upload)
    with refused("NoSuchUpload"):
        part(s3, upload, 2, b"x")


def test_repeated_completion_is_answered_as_before_and_says_nothing_about_the_object(
    s3: FakeS3,
) -> None:
    upload = begin(s3)
    only = part(s3, upload, 1, b"x")
    first = complete(s3, upload, only)
    s3.delete_object(Bucket="data", Key="out/a")
    assert complete(s3, upload, only) == first
    with refused("404"):
        s3.head_object(Bucket="data", Key="out/a")


def test_repeated_completion_is_refused_when_s3_has_forgotten_the_upload(s3: FakeS3) -> None:
    s3.repeats_answers = lambda: False
    upload = begin(s3)
    only = part(s3, upload, 1, b"x")
    complete(s3, upload, only)
    with refused("NoSuchUpload"):
        complete(s3, upload, only)


def completing(s3: FakeS3, how: Completion) -> tuple[dict[str, str], dict[str, Any]]:
    """An upload that S3 completes for a caller that is gone."""

    def gone(_seconds: float) -> None:
        raise KeyboardInterrupt

    sleep, s3.sleep, s3.completion = s3.sleep, gone, lambda _key: how
    upload = begin(s3)
    only = part(s3, upload, 1, b"x")
    with pytest.raises(KeyboardInterrupt):
        complete(s3, upload, only)
    s3.sleep = sleep
    return upload, only


def keys(s3: FakeS3) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket="data").get("Contents", [])]


@pytest.mark.parametrize("meanwhile", ["gone", "repeats", "waits"])
def test_completion_goes_on_without_its_caller(
    fake: FakeAws, s3: FakeS3, meanwhile: Meanwhile
) -> None:
    upload, only = completing(s3, Completion(300, meanwhile))
    assert keys(s3) == []
    if meanwhile == "gone":
        with refused("NoSuchUpload"):
            complete(s3, upload, only)
        with refused("NoSuchUpload"):
            s3.abort_multipart_upload(**upload)
    else:
        assert "Uploads" in s3.list_multipart_uploads(Bucket="data")
        complete(s3, upload, only)
    assert keys(s3) == (["out/a"] if meanwhile == "waits" else [])
    fake.clock.advance(300)
    assert keys(s3) == ["out/a"]
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="data")


def test_completion_may_fail_inside_a_200_and_leaves_the_upload_pending(s3: FakeS3) -> None:
    s3.completion = lambda _key: Completion(40, fails=True)
    upload = begin(s3)
    only = part(s3, upload, 1, b"x")
    with refused("InternalError"):
        complete(s3, upload, only)
    assert (keys(s3), len(s3.list_multipart_uploads(Bucket="data")["Uploads"])) == ([], 1)
    s3.completion = lambda _key: Completion()
    complete(s3, upload, only)
    assert keys(s3) == ["out/a"]


def test_upload_aborted_while_it_is_completed_leaves_no_object(fake: FakeAws, s3: FakeS3) -> None:
    upload, _ = completing(s3, Completion(300, "waits"))
    s3.abort_multipart_upload(**upload)
    fake.clock.advance(300)
    assert keys(s3) == []


def test_upload_is_unknown_under_another_key(s3: FakeS3) -> None:
    with refused("NoSuchUpload"):
        s3.abort_multipart_upload(**begin(s3) | {"Key": "out/b"})


def test_completion_must_name_the_parts_exactly(s3: FakeS3) -> None:
    upload = begin(s3)
    first, second = part(s3, upload, 1, b"x"), part(s3, upload, 2, b"y")
    with refused("MalformedXML"):
        complete(s3, upload)
    with refused("InvalidPartOrder"):
        complete(s3, upload, second, first)
    with refused("InvalidPart"):
        complete(s3, upload, first | {"ETag": second["ETag"]})
    with refused("InvalidPart"):
        complete(s3, upload, first | {"ChecksumCRC32": second["ChecksumCRC32"]})
    with refused("InvalidPart"):
        complete(s3, upload, first | {"PartNumber": 3})
    with refused("InvalidRequest", "must include the checksum for each part"):
        complete(s3, upload, {"PartNumber": 1, "ETag": first["ETag"]})
    with refused("EntityTooSmall"):
        complete(s3, upload, first, second)
    with refused("InvalidArgument"):
        part(s3, upload, 10_001, b"")
    assert "Contents" not in s3.list_objects_v2(Bucket="data")
    complete(s3, upload, first)


def test_uploads_are_listed_in_pages_and_aborted_by_the_lifecycle_rule(
    fake: FakeAws, s3: FakeS3
) -> None:
    s3.page_size = 2
    uploads = [begin(s3)["UploadId"] for _ in range(3)]
    pages = list(s3.get_paginator("list_multipart_uploads").paginate(Bucket="data", Prefix="out/"))
    assert [[each["UploadId"] for each in page["Uploads"]] for page in pages] == [
        uploads[:2],
        uploads[2:],
    ]
    fake.clock.advance(timedelta(days=30).total_seconds())
    s3.abort_older_uploads(fake.clock.now())
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="data")


def test_conditional_put_is_refused_when_its_condition_fails(s3: FakeS3) -> None:
    with refused("NoSuchKey"):
        s3.put_object(Bucket="data", Key="_SUCCESS", Body=b"1", IfMatch='"etag"')
    first = s3.put_object(Bucket="data", Key="_SUCCESS", Body=b"1", IfNoneMatch="*")["ETag"]
    with refused("PreconditionFailed"):
        s3.put_object(Bucket="data", Key="_SUCCESS", Body=b"2", IfNoneMatch="*")
    s3.put_object(Bucket="data", Key="_SUCCESS", Body=b"2", IfMatch=first)
    with refused("PreconditionFailed"):
        s3.put_object(Bucket="data", Key="_SUCCESS", Body=b"3", IfMatch=first)
    assert s3.get_object(Bucket="data", Key="_SUCCESS")["Body"].read() == b"2"


def test_objects_are_read_whole_or_by_line(s3: FakeS3) -> None:
    s3.put_object(Bucket="data", Key="lines", Body=BytesIO(b"a\nb\n"), ContentType="text/plain")
    found = s3.get_object(Bucket="data", Key="lines")
    assert list(found["Body"].iter_lines()) == [b"a", b"b"]
    assert (found["ContentLength"], found["ContentType"]) == (4, "text/plain")


def test_objects_are_listed_in_order_and_in_pages(s3: FakeS3) -> None:
    s3.page_size = 2
    for key in ("b/2", "b/1", "a", "b/3"):
        s3.put_object(Bucket="data", Key=key)
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket="data", Prefix="b/"))
    assert [[each["Key"] for each in page["Contents"]] for page in pages] == [
        ["b/1", "b/2"],
        ["b/3"],
    ]


def test_delete_of_a_missing_key_is_no_error_but_over_1000_keys_are_refused(s3: FakeS3) -> None:
    s3.put_object(Bucket="data", Key="a")
    quiet = s3.delete_objects(
        Bucket="data", Delete={"Objects": [{"Key": "a"}, {"Key": "b"}], "Quiet": True}
    )
    assert quiet == {}
    s3.delete_object(Bucket="data", Key="a")
    with refused("MalformedXML"):
        s3.delete_objects(Bucket="data", Delete={"Objects": [{"Key": "a"}] * 1001})
    with refused("NoSuchBucket"):
        s3.list_objects_v2(Bucket="other")
