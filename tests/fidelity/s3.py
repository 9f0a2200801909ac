"""Rules of S3: conditional writes, listings and deletions, and uploads in parts."""

from io import BytesIO
from typing import Any

from botocore.exceptions import ClientError

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import Probe, Repair, Rules, recorded

UNCHECKED = "moto does not look at the checksums of parts; the fakes do"
COMPLETE = "API_CompleteMultipartUpload"
RULES = Rules()


@RULES.add("ok", recorded("s3/test_s3_api.py::test_delete_object", "2026-02"))
def deletion_of_a_missing_key(aws: Aws) -> str:
    return code_of(lambda: bucket(aws).delete_object(Bucket="data", Key="a"))


def bucket(aws: Aws, *keys: str) -> Any:
    """S3 with the bucket `data` and these objects."""
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="data")
    for key in keys:
        s3.put_object(Bucket="data", Key=key, Body=b"")
    return s3


def put(s3: Any, **condition: str) -> str:
    return code_of(lambda: s3.put_object(Bucket="data", Key="a", Body=b"", **condition))


def conditional(*there: str, **condition: str) -> Probe:
    """Puts `a` on this condition where these keys are."""
    return lambda aws: put(bucket(aws, *there), **condition)


IF_MATCH = recorded("s3/test_s3_api.py::test_put_object_if_match", "2026-02")
RULES.row(
    "put with if-none-match on an existing key",
    conditional("a", IfNoneMatch="*"),
    "PreconditionFailed",
    recorded("s3/test_s3_api.py::test_put_object_if_none_match", "2026-02"),
)
RULES.row(
    "put with another etag than the object's",
    conditional("a", IfMatch='"etag"'),
    "PreconditionFailed",
    IF_MATCH,
)
RULES.row(
    "put with if-match on a missing key", conditional(IfMatch='"etag"'), "NoSuchKey", IF_MATCH
)


@RULES.add("ok", recorded("s3/test_s3_api.py::test_put_object_if_none_match", "2026-02"))
def put_with_if_none_match_after_a_deletion(aws: Aws) -> str:
    s3 = bucket(aws, "a")
    s3.delete_object(Bucket="data", Key="a")
    return put(s3, IfNoneMatch="*")


@RULES.add("a, missing", recorded("s3/test_s3_api.py::test_delete_objects", "2026-02"))
def deletion_of_several_keys_of_which_one_is_missing(aws: Aws) -> str:
    keys = [{"Key": "a"}, {"Key": "missing"}]
    deleted = bucket(aws, "a").delete_objects(Bucket="data", Delete={"Objects": keys})
    return ", ".join(sorted(each["Key"] for each in deleted["Deleted"]))


@RULES.add(
    "n_1, n_10, n_2",
    recorded(
        "s3/test_s3_list_operations.py::test_list_objects_v2_continuation_start_after",
        "2026-02",
    ),
)
def order_of_listed_keys(aws: Aws) -> str:
    s3 = bucket(aws, "n_2", "n_10", "n_1")
    page = s3.list_objects_v2(Bucket="data", Prefix="n_", MaxKeys=2)
    rest = s3.list_objects_v2(
        Bucket="data", Prefix="n_", ContinuationToken=page["NextContinuationToken"]
    )
    return ", ".join(each["Key"] for each in [*page["Contents"], *rest["Contents"]])


@RULES.add("PreconditionFailed, 2", "conditional-writes")
def put_with_the_etag_of_a_replaced_object(aws: Aws) -> str:
    s3 = bucket(aws)
    first = s3.put_object(Bucket="data", Key="a", Body=b"1")["ETag"]
    s3.put_object(Bucket="data", Key="a", Body=b"2", IfMatch=first)
    code = put(s3, IfMatch=first)
    return f"{code}, {s3.get_object(Bucket='data', Key='a')['Body'].read().decode()}"


@RULES.add("a, b: 4 bytes, text/plain", "API_GetObject")
def object_read_by_line(aws: Aws) -> str:
    s3 = bucket(aws)
    s3.put_object(Bucket="data", Key="a", Body=BytesIO(b"a\nb\n"), ContentType="text/plain")
    found = s3.get_object(Bucket="data", Key="a")
    lines = [line.decode() for line in found["Body"].iter_lines()]
    return f"{', '.join(lines)}: {found['ContentLength']} bytes, {found['ContentType']}"


# Uploads in parts.


def upload(aws: Aws, **more: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="data")
    return upload_to(s3, "a", **more)


def upload_to(s3: Any, key: str, **more: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """S3, the names of an upload with one part, and the arguments that complete it."""
    begun = s3.create_multipart_upload(Bucket="data", Key=key, **more)
    named = {"Bucket": "data", "Key": key, "UploadId": begun["UploadId"]}
    part = s3.upload_part(**named, PartNumber=1, Body=b"x", ChecksumAlgorithm="CRC32")
    parts = [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}]
    return s3, named, {"MultipartUpload": {"Parts": parts}}


@RULES.add(
    "the same ETag",
    f"{COMPLETE}; recorded by LocalStack",
)
def upload_completed_twice(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
    first = s3.complete_multipart_upload(**named, **completion)["ETag"]
    try:
        again = s3.complete_multipart_upload(**named, **completion)["ETag"]
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "the same ETag" if again == first else "another ETag"


@RULES.add("404", "recorded by LocalStack")
def upload_completed_again_after_its_object_was_deleted(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
    s3.complete_multipart_upload(**named, **completion)
    s3.delete_object(Bucket="data", Key="a")
    code_of(lambda: s3.complete_multipart_upload(**named, **completion))
    return code_of(lambda: s3.head_object(Bucket="data", Key="a"))


def after_its_end(end: str, call: str) -> Probe:
    """Ends an upload by one call of S3, and makes another one for it."""

    def probe(aws: Aws) -> str:
        s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
        calls = {
            "abort": lambda: s3.abort_multipart_upload(**named),
            "complete": lambda: s3.complete_multipart_upload(**named, **completion),
            "upload a part": lambda: s3.upload_part(**named, PartNumber=1, Body=b"x"),
        }
        calls[end]()
        return code_of(calls[call])

    return probe


NO_UPLOAD = recorded("s3/test_s3.py::test_multipart_no_such_upload", "2026-02")
ABORT = "API_AbortMultipartUpload"
UPLOADS = Repair("s3.uploads", "500")
GONE = "NoSuchUpload"
RULES.row("upload aborted after its completion", after_its_end("complete", "abort"), GONE, ABORT)
RULES.row("upload aborted twice", after_its_end("abort", "abort"), GONE, ABORT)
RULES.row(
    "part of a completed upload",
    after_its_end("complete", "upload a part"),
    GONE,
    "API_UploadPart",
)
RULES.row(
    "part of an unknown upload",
    after_its_end("abort", "upload a part"),
    GONE,
    NO_UPLOAD,
    repair=UPLOADS,
)
RULES.row(
    "completion of an aborted upload",
    after_its_end("abort", "complete"),
    GONE,
    NO_UPLOAD,
    repair=UPLOADS,
)


def completed(**part: Any) -> Probe:
    """Completes an upload whose one part is told otherwise than it was sent. None: not at all."""

    def probe(aws: Aws) -> str:
        s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
        told = {**completion["MultipartUpload"]["Parts"][0], **part}
        parts = [{name: value for name, value in told.items() if value is not None}]
        return code_of(
            lambda: s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
        )

    return probe


WRONG_PART = recorded("s3/test_s3.py::test_multipart_complete_multipart_wrong_part", "2026-02")
RULES.row(
    "upload completed without its checksums",
    completed(ChecksumCRC32=None),
    "InvalidRequest",
    COMPLETE,
    embedded="ok",
    why=UNCHECKED,
)
RULES.row(
    "upload completed with wrong checksums",
    completed(ChecksumCRC32="AAAAAA=="),
    "InvalidPart",
    COMPLETE,
    embedded="ok",
    why=UNCHECKED,
)
RULES.row(
    "upload completed with an unknown part", completed(PartNumber=2), "InvalidPart", WRONG_PART
)
RULES.row(
    "upload completed with another etag",
    completed(ETag='"d41d8cd98f00b204e9800998ecf8427e"'),
    "InvalidPart",
    WRONG_PART,
)


@RULES.add(
    "EntityTooSmall",
    recorded("s3/test_s3.py::test_multipart_complete_multipart_too_small", "2026-02"),
)
def upload_completed_with_a_small_part_before_the_last(aws: Aws) -> str:
    s3, named, completion = upload(aws)
    (first,) = completion["MultipartUpload"]["Parts"]
    second = s3.upload_part(**named, PartNumber=2, Body=b"x")
    parts = [{"PartNumber": 1, "ETag": first["ETag"]}, {"PartNumber": 2, "ETag": second["ETag"]}]
    return code_of(lambda: s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts}))


@RULES.add("ok", recorded("s3/test_s3.py::test_complete_multipart_parts_order", "2026-02"))
def parts_with_a_gap_between_their_numbers(aws: Aws) -> str:
    s3, named, _ = upload(aws)
    part = s3.upload_part(**named, PartNumber=3, Body=b"x")
    parts = [{"PartNumber": 3, "ETag": part["ETag"]}]
    return code_of(lambda: s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts}))


@RULES.add("…-2", recorded("s3/test_s3.py::test_complete_multipart_parts_order", "2026-02"))
def etag_of_an_object_in_two_parts(aws: Aws) -> str:
    s3, named, _ = upload(aws)
    parts = []
    for number, body in ((1, b"x" * 5 * 1024 * 1024), (2, b"x")):
        part = s3.upload_part(**named, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    done = s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
    return "…" + str(done["ETag"]).strip('"')[32:]


@RULES.add("404", COMPLETE)
def object_before_its_upload_is_completed(aws: Aws) -> str:
    s3, _, _ = upload(aws)
    return code_of(lambda: s3.head_object(Bucket="data", Key="a"))


@RULES.add("1 byte, t, 0 uploads", COMPLETE)
def object_of_a_completed_upload(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32", Metadata={"kind": "t"})
    s3.complete_multipart_upload(**named, **completion)
    head = s3.head_object(Bucket="data", Key="a")
    left = s3.list_multipart_uploads(Bucket="data").get("Uploads", [])
    return f"{head['ContentLength']} byte, {head['Metadata']['kind']}, {len(left)} uploads"


@RULES.add("404, ok", COMPLETE)
def upload_completed_after_a_refused_completion(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
    unknown = [{"PartNumber": 2, "ETag": '"d41d8cd98f00b204e9800998ecf8427e"'}]
    code_of(lambda: s3.complete_multipart_upload(**named, MultipartUpload={"Parts": unknown}))
    before = code_of(lambda: s3.head_object(Bucket="data", Key="a"))
    return f"{before}, {code_of(lambda: s3.complete_multipart_upload(**named, **completion))}"
