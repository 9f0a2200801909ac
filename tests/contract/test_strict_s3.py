"""What AWS leaves open about S3, the strict S3 plays as a test or a world chooses.

The rules of S3 stand in `tests/fidelity`.
"""

from datetime import timedelta
from typing import Any

import pytest

from simulation.aws.cloud import FakeAws
from simulation.aws.s3.client import FakeS3
from simulation.aws.s3.completion import Completion, Meanwhile
from tests.contract.refusals import refused


@pytest.fixture
def s3(fake: FakeAws) -> FakeS3:
    fake.s3.create_bucket(Bucket="data")
    return fake.s3


def begin(s3: FakeS3) -> dict[str, str]:
    begun = s3.create_multipart_upload(Bucket="data", Key="out/a", ChecksumAlgorithm="CRC32")
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


def test_objects_are_listed_in_order_and_in_pages(s3: FakeS3) -> None:
    s3.page_size = 2
    for key in ("b/2", "b/1", "a", "b/3"):
        s3.put_object(Bucket="data", Key=key)
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket="data", Prefix="b/"))
    assert [[each["Key"] for each in page["Contents"]] for page in pages] == [
        ["b/1", "b/2"],
        ["b/3"],
    ]


def test_folders_are_listed_in_order_and_in_pages(s3: FakeS3) -> None:
    for key in ("a/1", "b/x/1", "b/x/2", "b/y/1", "c/1"):
        s3.put_object(Bucket="data", Key=key)
    s3.page_size = 1

    pages = list(
        s3.get_paginator("list_objects_v2").paginate(Bucket="data", Prefix="b/", Delimiter="/")
    )

    assert [page.get("CommonPrefixes") for page in pages] == [
        [{"Prefix": "b/x/"}],
        [{"Prefix": "b/y/"}],
    ]


def test_a_part_is_copied_from_a_range_of_an_object(s3: FakeS3) -> None:
    s3.put_object(Bucket="data", Key="saved/a", Body=b"abcdef")
    upload = begin(s3)
    source = {"Bucket": "data", "Key": "saved/a"}

    def copy(key: str, of: str) -> dict[str, Any]:
        return s3.upload_part_copy(
            **upload, PartNumber=1, CopySource={**source, "Key": key}, CopySourceRange=of
        )["CopyPartResult"]

    with refused("NoSuchKey"):
        copy("saved/b", "bytes=0-1")
    with refused("InvalidRange"):
        copy("saved/a", "bytes=4-6")
    part_ = copy("saved/a", "bytes=1-3")
    complete(s3, upload, {"PartNumber": 1, **part_})
    assert s3.get_object(Bucket="data", Key="out/a")["Body"].read() == b"bcd"
