"""The strict S3 refuses what S3 refuses, above all about multipart uploads."""

from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest

from tests.contract.refusals import refused
from tests.fakes.aws import FakeAws
from tests.fakes.s3 import FakeS3

MIB = 1024 * 1024


@pytest.fixture
def s3(fake: FakeAws) -> FakeS3:
    fake.s3.create_bucket(Bucket="data")
    return fake.s3


def begin(s3: FakeS3, **more: Any) -> dict[str, str]:
    upload = s3.create_multipart_upload(Bucket="data", Key="out/a", **more)["UploadId"]
    return {"Bucket": "data", "Key": "out/a", "UploadId": upload}


def part(s3: FakeS3, upload: dict[str, str], number: int, body: bytes) -> dict[str, Any]:
    answer = s3.upload_part(**upload, PartNumber=number, Body=body, ChecksumAlgorithm="CRC32")
    return {"PartNumber": number, "ETag": answer["ETag"], "ChecksumCRC32": answer["ChecksumCRC32"]}


def complete(s3: FakeS3, upload: dict[str, str], *parts: dict[str, Any]) -> dict[str, Any]:
    return dict(s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": list(parts)}))


def test_an_upload_shows_whole_when_it_is_completed_and_not_before(s3: FakeS3) -> None:
    upload = begin(s3, Metadata={"longhaul-token": "t"}, ChecksumAlgorithm="CRC32")
    parts = [part(s3, upload, 1, b"x" * 5 * MIB), part(s3, upload, 2, b"y")]
    with refused("404"):
        s3.head_object(Bucket="data", Key="out/a")
    etag = complete(s3, upload, *parts)["ETag"]
    head = s3.head_object(Bucket="data", Key="out/a")
    assert (head["ETag"], head["ContentLength"], head["Metadata"]) == (etag, 5 * MIB + 1, {"longhaul-token": "t"})
    assert etag.endswith('-2"')
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="data")


@pytest.mark.parametrize("end", ["completed", "aborted"])
def test_an_upload_that_has_ended_is_no_more(s3: FakeS3, end: str) -> None:
    upload = begin(s3)
    only = part(s3, upload, 1, b"x")
    if end == "completed":
        complete(s3, upload, only)
    else:
        s3.abort_multipart_upload(**upload)
    with refused("NoSuchUpload"):
        complete(s3, upload, only)
    with refused("NoSuchUpload"):
        s3.abort_multipart_upload(**upload)
    with refused("NoSuchUpload"):
        part(s3, upload, 2, b"x")


def test_an_upload_belongs_to_its_key(s3: FakeS3) -> None:
    with refused("NoSuchUpload"):
        s3.abort_multipart_upload(**begin(s3) | {"Key": "out/b"})


def test_what_completes_an_upload_must_name_its_parts_as_they_are(s3: FakeS3) -> None:
    upload = begin(s3, ChecksumAlgorithm="CRC32")
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


def test_uploads_are_listed_page_by_page_and_end_by_their_lifecycle(fake: FakeAws, s3: FakeS3) -> None:
    s3.page_size = 2
    uploads = [begin(s3)["UploadId"] for _ in range(3)]
    pages = list(s3.get_paginator("list_multipart_uploads").paginate(Bucket="data", Prefix="out/"))
    assert [[each["UploadId"] for each in page["Uploads"]] for page in pages] == [uploads[:2], uploads[2:]]
    fake.clock.advance(timedelta(days=30).total_seconds())
    s3.abort_older_uploads(fake.clock.now())
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="data")


def test_a_conditional_put_has_its_condition(s3: FakeS3) -> None:
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


def test_objects_are_listed_in_order_page_by_page(s3: FakeS3) -> None:
    s3.page_size = 2
    for key in ("b/2", "b/1", "a", "b/3"):
        s3.put_object(Bucket="data", Key=key)
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket="data", Prefix="b/"))
    assert [[each["Key"] for each in page["Contents"]] for page in pages] == [["b/1", "b/2"], ["b/3"]]


def test_deleting_what_is_not_there_is_no_error_but_nothing_at_all_is(s3: FakeS3) -> None:
    s3.put_object(Bucket="data", Key="a")
    quiet = s3.delete_objects(Bucket="data", Delete={"Objects": [{"Key": "a"}, {"Key": "b"}], "Quiet": True})
    assert quiet == {}
    s3.delete_object(Bucket="data", Key="a")
    with refused("MalformedXML"):
        s3.delete_objects(Bucket="data", Delete={"Objects": [{"Key": "a"}] * 1001})
    with refused("NoSuchBucket"):
        s3.list_objects_v2(Bucket="other")
