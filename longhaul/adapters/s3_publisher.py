"""Making a committed output visible on S3, repeatably and by anyone.

    runner   create the uploads ──► list them ──► send the parts ──► list those too ──► COMMIT (one write on the lease row) ──┐
                                                                                                                             ▼
    anyone   complete the uploads ──► PUT _SUCCESS iff it still is the manifest to replace ──► delete the files that one named

Before the commit nothing is visible. After it each step may be repeated, from any point, by the runner, by settle or by the sweeper: file names carry
the attempt's token, so that a key holds this attempt's bytes or nothing. `_SUCCESS` is the switch: who follows it sees the old output or the new, whole.
A crash before the first list leaves uploads without parts, which cost nothing and end by the bucket's lifecycle rule.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from botocore.exceptions import ClientError
from pydantic import AfterValidator, Field, ValidationError

from longhaul.domain.errors import VoidCommitError
from longhaul.domain.lease import AttemptId, CommittedOutput
from longhaul.domain.pending import PREFIX, attempt_of, pending_ref
from longhaul.settings import Model

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, ObjectIdentifierTypeDef

MANIFEST = "_SUCCESS"
"""Spark's own marker, so that other readers' rules (hidden file, job finished) hold; ours has the manifest as its content."""
TOKEN_METADATA = "longhaul-token"  # noqa: S105 - the name of a metadata field
_THREADS = 16  # completing is waiting: S3 needs up to seconds for each
_DELETE_BATCH = 1_000  # DeleteObjects' limit
# S3 answers 409 while another conditional write to the same key is in progress: over in milliseconds, so few and short tries.
_CHANGED_MEANWHILE = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}
_CONFLICT_TRIES = 6
_CONFLICT_WAIT_S = 0.2
# An upload may be neither pending nor there for a moment while somebody else completes it: looked at again before it is called gone.
_GONE_TRIES = 4
_GONE_WAIT_S = 1.0

logger = logging.getLogger(__name__)


def _relative(path: str) -> str:
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError("must be a relative path without empty, '.' or '..' segments")
    return path


RelativePath = Annotated[str, AfterValidator(_relative)]


class ManifestFile(Model):
    """One file, relative to the output's prefix. `dataset` is `.` for the output itself, else the name it was written under."""

    path: RelativePath
    size: int
    dataset: str = "."


class Manifest(Model):
    """Content of `_SUCCESS`: exactly the files of the attempt that published it, and the exact row counts by dataset where known."""

    version: Literal[1] = 1
    key: str
    run: int
    attempt: int
    files: tuple[ManifestFile, ...]
    rows: dict[str, int] = Field(default_factory=dict)

    @property
    def token(self) -> str:
        return AttemptId(self.key, self.run, self.attempt).token


class Part(Model):
    n: int
    etag: str
    crc32: str | None = None


class Upload(Model):
    """One pending multipart upload: a file of the output, and all that completing it takes."""

    path: RelativePath
    upload_id: str
    size: int
    parts: tuple[Part, ...] = ()


class PendingOutput(Model):
    """The pending list of an attempt. Without parts and manifest (so that the uploads can be aborted) until the last part is sent."""

    version: Literal[1] = 1
    token: str
    prefix: str
    replaces_etag: str | None = None
    replaces: tuple[RelativePath, ...] = ()
    uploads: tuple[Upload, ...] = ()
    manifest: Manifest | None = None


class S3Condition(TypedDict, total=False):
    """Arguments of a conditional PUT."""

    IfMatch: str
    IfNoneMatch: str


class PublishedElsewhereError(Exception):
    """Another run's manifest is in place: this output is history."""


def split_prefix(prefix: str) -> tuple[str, str]:
    """Bucket and key prefix of `s3://bucket/key/prefix/`."""
    bucket, _, key = prefix.removeprefix("s3://").partition("/")
    return bucket, key


class S3Publisher:
    """Implements `ports.Publisher`. `bucket` is the data bucket, which holds the pending lists; outputs may be in others."""

    def __init__(self, client: "S3Client", bucket: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._s3 = client
        self._bucket = bucket
        self._sleep = sleep

    def publish(self, output: CommittedOutput) -> None:
        """Make a committed output visible. Repeatable; also a quiet no-op when a later run has replaced the output.

        Raises:
            VoidCommitError: uploads are gone and nothing of it is published.
            ClientError: S3 refused; publish again.
        """
        pending = self._load(output.pending_ref)
        if pending is None or pending.manifest is None:
            raise VoidCommitError(f"{output.pending_ref} does not list the uploads")
        try:
            if self._in_place(pending) is not None:
                self._complete_all(pending)
                self._switch(pending, pending.manifest)
        except PublishedElsewhereError:
            logger.warning("another run has replaced the output of %s", pending.token)
            self._abort(pending)
            self._delete(pending, (upload.path for upload in pending.uploads))
        self._delete(pending, pending.replaces)

    def discard(self, attempt: AttemptId) -> None:
        """Abort what an uncommitted attempt left pending. The list stays, so that this can be repeated for parts that were still on their way."""
        pending = self._load(pending_ref(attempt))
        if pending is not None:
            self._abort(pending)

    def listed(self) -> Iterator[AttemptId]:
        """Attempts whose pending list is there, a thousand with each call."""
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=PREFIX):
            for item in page.get("Contents", []):
                attempt = attempt_of(item["Key"])
                if attempt is not None:
                    yield attempt

    def strike_off(self, attempts: Iterable[AttemptId]) -> None:
        """Remove their pending lists; one that is not there is no error."""
        self._delete_keys(self._bucket, [pending_ref(attempt) for attempt in attempts])

    def _load(self, ref: str) -> PendingOutput | None:
        body = _get(self._s3, self._bucket, ref)
        return None if body is None else PendingOutput.model_validate_json(body[0])

    def _in_place(self, pending: PendingOutput) -> S3Condition | None:
        """The condition under which the switch may happen now; None when it has happened.

        Raises:
            PublishedElsewhereError: the manifest in place is neither ours nor the one to replace.
        """
        bucket, prefix = split_prefix(pending.prefix)
        manifest, etag = read_manifest(self._s3, bucket, prefix)
        if manifest is not None and manifest.token == pending.token:
            return None
        if etag is None:  # none to replace, or removed by hand: no reason to withhold a committed output
            return {"IfNoneMatch": "*"}
        if etag != pending.replaces_etag:
            raise PublishedElsewhereError
        return {"IfMatch": etag}

    def _complete_all(self, pending: PendingOutput) -> None:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="complete") as pool:
            gone = [path for path in pool.map(lambda upload: self._complete(pending, upload), pending.uploads) if path]
        if not gone:
            return
        # Only now: while this one looked, another publisher may have finished, and a later run even replaced it.
        if self._in_place(pending) is None:
            return
        self._abort(pending)
        self._delete(pending, (upload.path for upload in pending.uploads))
        raise VoidCommitError(f"{len(gone)} of {len(pending.uploads)} uploads are gone, {gone[0]} for one")

    def _complete(self, pending: PendingOutput, upload: Upload) -> str | None:
        """None when the file is in its place; its path when it is neither pending nor there."""
        bucket, prefix = split_prefix(pending.prefix)
        key = prefix + upload.path
        for attempt in range(_GONE_TRIES):
            if attempt:
                self._sleep(_GONE_WAIT_S * attempt)
            try:
                self._s3.complete_multipart_upload(
                    Bucket=bucket,
                    Key=key,
                    UploadId=upload.upload_id,
                    MultipartUpload={"Parts": [_completed_part(part) for part in upload.parts]},
                )
            except ClientError as error:
                if _code(error) != "NoSuchUpload":
                    raise
            else:
                return None
            if self._is_in_place(bucket, key, pending.token, upload.size):
                return None
        return upload.path

    def _is_in_place(self, bucket: str, key: str, token: str, size: int) -> bool:
        """Told by our metadata and the size rather than by the ETag, which is no digest of the parts under SSE-KMS."""
        try:
            head = self._s3.head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if _code(error) in ("404", "NoSuchKey", "NotFound"):
                return False
            raise
        return head["Metadata"].get(TOKEN_METADATA) == token and head["ContentLength"] == size

    def _switch(self, pending: PendingOutput, manifest: Manifest) -> None:
        """PUT `_SUCCESS` iff what is there is what this output replaces.

        Raises:
            PublishedElsewhereError: it is not.
        """
        bucket, prefix = split_prefix(pending.prefix)
        for attempt in range(_CONFLICT_TRIES):
            if attempt:
                self._sleep(_CONFLICT_WAIT_S * 2**attempt)
            condition = self._in_place(pending)
            if condition is None:
                return
            try:
                self._s3.put_object(
                    Bucket=bucket,
                    Key=prefix + MANIFEST,
                    Body=manifest.model_dump_json().encode(),
                    ContentType="application/json",
                    **condition,
                )
            except ClientError as error:
                if _code(error) not in _CHANGED_MEANWHILE:
                    raise
            else:
                return
        raise RuntimeError(f"{prefix}{MANIFEST} changed under each of {_CONFLICT_TRIES} tries")

    def _abort(self, pending: PendingOutput) -> None:
        bucket, prefix = split_prefix(pending.prefix)

        def abort(upload: Upload) -> None:
            try:
                self._s3.abort_multipart_upload(Bucket=bucket, Key=prefix + upload.path, UploadId=upload.upload_id)
            except ClientError as error:
                if _code(error) not in ("NoSuchUpload", "NoSuchBucket"):
                    raise

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="abort") as pool:
            list(pool.map(abort, pending.uploads))

    def _delete(self, pending: PendingOutput, paths: Iterable[str]) -> None:
        """Delete files of the output, except those that the manifest in place names."""
        bucket, prefix = split_prefix(pending.prefix)
        manifest, _ = read_manifest(self._s3, bucket, prefix)
        in_use = {file.path for file in manifest.files} if manifest else set()
        self._delete_keys(bucket, [prefix + path for path in paths if path not in in_use and path != MANIFEST])

    def _delete_keys(self, bucket: str, doomed: list[str]) -> None:
        for start in range(0, len(doomed), _DELETE_BATCH):
            keys: list[ObjectIdentifierTypeDef] = [{"Key": key} for key in doomed[start : start + _DELETE_BATCH]]
            answer = self._s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
            for failed in answer.get("Errors", []):
                raise RuntimeError(f"could not delete {failed.get('Key')}: {failed.get('Code')}")


def read_manifest(client: "S3Client", bucket: str, prefix: str) -> tuple[Manifest, str] | tuple[None, str | None]:
    """The manifest under a prefix and its ETag. (None, ETag) for a `_SUCCESS` that is not ours, (None, None) for none at all."""
    found = _get(client, bucket, prefix + MANIFEST)
    if found is None:
        return None, None
    body, etag = found
    try:
        return Manifest.model_validate_json(body), etag
    except ValidationError:
        return None, etag


def _get(client: "S3Client", bucket: str, key: str) -> tuple[bytes, str] | None:
    try:
        answer = client.get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if _code(error) == "NoSuchKey":
            return None
        raise
    return answer["Body"].read(), answer["ETag"]


def _completed_part(part: Part) -> "CompletedPartTypeDef":
    completed: CompletedPartTypeDef = {"PartNumber": part.n, "ETag": part.etag}
    if part.crc32 is not None:  # an upload begun with a checksum algorithm must repeat each part's when it is completed
        completed["ChecksumCRC32"] = part.crc32
    return completed


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])
