"""Rules of S3: conditional writes and uploads in parts."""

from typing import Any

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import Rule

COMPLETE = "API_CompleteMultipartUpload"


def upload(aws: Aws, **more: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """S3, the names of an upload with one part, and the arguments that complete it."""
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="data")
    begun = s3.create_multipart_upload(Bucket="data", Key="a", **more)
    named = {"Bucket": "data", "Key": "a", "UploadId": begun["UploadId"]}
    part = s3.upload_part(**named, PartNumber=1, Body=b"x", ChecksumAlgorithm="CRC32")
    parts = [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}]
    return s3, named, {"MultipartUpload": {"Parts": parts}}


def upload_completed_twice(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
    s3.complete_multipart_upload(**named, **completion)
    return code_of(lambda: s3.complete_multipart_upload(**named, **completion))


def upload_completed_again_after_its_object_was_deleted(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
    s3.complete_multipart_upload(**named, **completion)
    s3.delete_object(Bucket="data", Key="a")
    code_of(lambda: s3.complete_multipart_upload(**named, **completion))
    return code_of(lambda: s3.head_object(Bucket="data", Key="a"))


def upload_aborted_after_its_completion(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
    s3.complete_multipart_upload(**named, **completion)
    return code_of(lambda: s3.abort_multipart_upload(**named))


def upload_completed_without_its_checksums(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
    del completion["MultipartUpload"]["Parts"][0]["ChecksumCRC32"]
    return code_of(lambda: s3.complete_multipart_upload(**named, **completion))


def upload_completed_with_wrong_checksums(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
    completion["MultipartUpload"]["Parts"][0]["ChecksumCRC32"] = "AAAAAA=="
    return code_of(lambda: s3.complete_multipart_upload(**named, **completion))


def part_checksums_on_an_upload_begun_without_an_algorithm(aws: Aws) -> str:
    s3, named, completion = upload(aws)
    return code_of(lambda: s3.complete_multipart_upload(**named, **completion))


def upload_completed_with_an_unknown_part(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
    completion["MultipartUpload"]["Parts"][0]["PartNumber"] = 2
    return code_of(lambda: s3.complete_multipart_upload(**named, **completion))


def put_with_if_none_match_on_an_existing_key(aws: Aws) -> str:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="data")
    s3.put_object(Bucket="data", Key="a", Body=b"")
    return code_of(lambda: s3.put_object(Bucket="data", Key="a", Body=b"", IfNoneMatch="*"))


def put_with_another_etag_than_the_objects(aws: Aws) -> str:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="data")
    s3.put_object(Bucket="data", Key="a", Body=b"")
    return code_of(lambda: s3.put_object(Bucket="data", Key="a", Body=b"", IfMatch='"etag"'))


def put_with_if_match_on_a_missing_key(aws: Aws) -> str:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="data")
    return code_of(lambda: s3.put_object(Bucket="data", Key="a", Body=b"", IfMatch='"etag"'))


def deletion_of_a_missing_key(aws: Aws) -> str:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="data")
    return code_of(lambda: s3.delete_object(Bucket="data", Key="a"))


UNCHECKED = "moto does not look at the checksums of parts; the fakes do"
RULES = [
    Rule(
        upload_completed_twice,
        "ok",
        f"{COMPLETE}; recorded by LocalStack",
        oracle="NoSuchUpload",
        why="LocalStack forgets an upload that it has completed. The 200 says nothing about the"
        " object: the publisher looks at what is there",
    ),
    Rule(
        upload_completed_again_after_its_object_was_deleted,
        "404",
        "recorded by LocalStack",
    ),
    Rule(upload_aborted_after_its_completion, "NoSuchUpload", "API_AbortMultipartUpload"),
    Rule(
        upload_completed_without_its_checksums,
        "InvalidRequest",
        COMPLETE,
        embedded="ok",
        why=UNCHECKED,
    ),
    Rule(
        upload_completed_with_wrong_checksums,
        "InvalidPart",
        COMPLETE,
        embedded="ok",
        why=UNCHECKED,
    ),
    Rule(
        part_checksums_on_an_upload_begun_without_an_algorithm,
        "InvalidPart",
        "recorded by LocalStack",
        embedded="ok",
        why="moto does not look at the checksums of parts. Longhaul names an algorithm when it"
        " begins an upload",
    ),
    Rule(upload_completed_with_an_unknown_part, "InvalidPart", COMPLETE),
    Rule(put_with_if_none_match_on_an_existing_key, "PreconditionFailed", "conditional-writes"),
    Rule(put_with_another_etag_than_the_objects, "PreconditionFailed", "conditional-writes"),
    Rule(put_with_if_match_on_a_missing_key, "NoSuchKey", "conditional-writes"),
    Rule(deletion_of_a_missing_key, "ok", "API_DeleteObject"),
]
