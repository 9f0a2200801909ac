"""Rules of S3: conditional writes, listings and deletions."""

from io import BytesIO
from typing import Any

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import NOT_ASKED, Probe, Rules, recorded

VERSIONS = "The fakes keep no versions. Conditions and reads see the newest version alone"
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


@RULES.add(
    "ok",
    recorded("s3/test_s3_api.py::test_put_object_if_none_match_versioned_bucket", "2026-02"),
    fake=NOT_ASKED,
    why=VERSIONS,
)
def put_with_if_none_match_on_a_delete_marker(aws: Aws) -> str:
    s3 = versioned(aws)
    s3.delete_object(Bucket="data", Key="a")
    return put(s3, IfNoneMatch="*")


def versioned(aws: Aws) -> Any:
    """S3 with an object in a bucket that keeps versions."""
    s3 = bucket(aws)
    s3.put_bucket_versioning(Bucket="data", VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket="data", Key="a", Body=b"")
    return s3


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
