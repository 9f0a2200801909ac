"""Making a committed output visible on S3, repeatably and by anyone.

    runner   create the uploads ──► list them ──► send the parts ──► list those too ──► COMMIT (one write on the lease row) ──┐
                                                                                                                             ▼
    anyone   complete the uploads ──► PUT _SUCCESS iff it still is the manifest that was merged with ──► delete the replaced files

Before the commit nothing is visible. After it each step may be repeated, from any point, by the runner, by settle or by the sweeper: file names carry
the attempt's token, so that a key holds this attempt's bytes or nothing. `_SUCCESS` is the switch: who follows it sees the old output or the new, whole. What it becomes is decided in `longhaul.domain.manifest`.
A crash before the first list leaves uploads without parts, which cost nothing and end by the bucket's lifecycle rule.
"""

import logging
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypedDict

from botocore.exceptions import ClientError
from pydantic import ValidationError

from longhaul.domain.errors import VoidCommitError
from longhaul.domain.lease import AttemptId, CommittedOutput
from longhaul.domain.manifest import MANIFEST, Manifest, Part, PendingOutput, Switch, Upload, decide_switch, merged
from longhaul.domain.pending import PREFIX, attempt_of, pending_ref

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, ObjectIdentifierTypeDef

TOKEN_METADATA = "longhaul-token"  # noqa: S105 - the name of a metadata field
_THREADS = 16  # completing is waiting: S3 needs up to seconds for each
_DELETE_BATCH = 1_000  # DeleteObjects' limit
# 409 comes while another conditional write to the key is in progress, 412 when one was faster: one of those who compete gets through in each round.
_CHANGED_MEANWHILE = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}
_CONFLICT_TRIES = 12
_CONFLICT_WAIT_S = 0.2
_CONFLICT_WAIT_CAP_S = 3.0
# An upload may be neither pending nor there for a moment while somebody else completes it: looked at again before it is called gone.
_GONE_TRIES = 4
_GONE_WAIT_S = 1.0

logger = logging.getLogger(__name__)


class S3Condition(TypedDict, total=False):
    """Arguments of a conditional PUT."""

    IfMatch: str
    IfNoneMatch: str


class _NotToBeSwitchedError(Exception):
    """This output does not become visible; `why` says what is in the way."""

    def __init__(self, why: Switch) -> None:
        super().__init__(why)
        self.why = why


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
            VoidCommitError: uploads are gone, or mode `error` (or `append`) found another output in the way; nothing of it is published.
            ClientError: S3 refused; publish again.
        """
        pending = self._load(output.pending_ref)
        if pending is None or pending.manifest is None:
            raise VoidCommitError(f"{output.pending_ref} does not list the uploads")
        try:
            if not self._is_switched(pending):
                self._complete_all(pending)
                self._switch(pending)
        except _NotToBeSwitchedError as error:
            self._withdraw(pending)
            if error.why is Switch.OCCUPIED:
                raise VoidCommitError(f"{pending.prefix} holds another output since the commit") from error
            logger.warning("another run has replaced the output of %s", pending.token)
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

    def _is_switched(self, pending: PendingOutput) -> bool:
        return _stands(pending, *read_manifest(self._s3, *split_prefix(pending.prefix)))

    def _withdraw(self, pending: PendingOutput) -> None:
        """Leave nothing of an output that does not become visible."""
        self._abort(pending)
        self._delete(pending, (upload.path for upload in pending.uploads))

    def _complete_all(self, pending: PendingOutput) -> None:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="complete") as pool:
            gone = [path for path in pool.map(lambda upload: self._complete(pending, upload), pending.uploads) if path]
        if not gone:
            return
        # Only now: while this one looked, another publisher may have finished, and a later run even replaced it.
        if self._is_switched(pending):
            return
        self._withdraw(pending)
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

    def _switch(self, pending: PendingOutput) -> None:
        """PUT the merged `_SUCCESS` iff what is there still is what it was merged with.

        Raises:
            _NotToBeSwitchedError: it must not become visible.
        """
        bucket, prefix = split_prefix(pending.prefix)
        for attempt in range(_CONFLICT_TRIES):
            if attempt:
                self._sleep(_conflict_wait_s(pending.token, attempt))
            current, etag = read_manifest(self._s3, bucket, prefix)
            if _stands(pending, current, etag):
                return
            condition: S3Condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
            try:
                self._s3.put_object(
                    Bucket=bucket,
                    Key=prefix + MANIFEST,
                    Body=merged(pending, current).model_dump_json().encode(),
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
        """Delete files of the output, except those that the manifest in place names. No rule leads to such a one; if any ever did, data would be gone."""
        doomed = set(paths) - {MANIFEST}
        if not doomed:
            return
        bucket, prefix = split_prefix(pending.prefix)
        manifest, _ = read_manifest(self._s3, bucket, prefix)
        in_use = {file.path for file in manifest.files} if manifest else set()
        self._delete_keys(bucket, [prefix + path for path in sorted(doomed - in_use)])

    def _delete_keys(self, bucket: str, doomed: list[str]) -> None:
        for start in range(0, len(doomed), _DELETE_BATCH):
            keys: list[ObjectIdentifierTypeDef] = [{"Key": key} for key in doomed[start : start + _DELETE_BATCH]]
            answer = self._s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
            for failed in answer.get("Errors", []):
                raise RuntimeError(f"could not delete {failed.get('Key')}: {failed.get('Code')}")


def _conflict_wait_s(token: str, attempt: int) -> float:
    """Grows, and differs between attempts, so that those who got into each other's way do not meet again."""
    spread = zlib.crc32(f"{token} {attempt}".encode()) / 2**32
    return min(_CONFLICT_WAIT_CAP_S, _CONFLICT_WAIT_S * (1 << attempt)) * spread


def _stands(pending: PendingOutput, current: Manifest | None, etag: str | None) -> bool:
    """Whether the output is switched to already; False: it is due.

    Raises:
        _NotToBeSwitchedError: neither.
    """
    decision = decide_switch(pending, current, etag)
    if decision in (Switch.REPLACED, Switch.OCCUPIED):
        raise _NotToBeSwitchedError(decision)
    return decision is Switch.DONE


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
