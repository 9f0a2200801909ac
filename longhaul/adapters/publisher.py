"""Makes a committed output visible on S3, repeatably and by anyone.

    runner   create the uploads ─► list them ─► send the parts ─► list those too ─► COMMIT ─┐
             (the commit is one write of the lease)                                         │
             ┌──────────────────────────────────────────────────────────────────────────────┘
    anyone   complete the uploads ─► all files there? ─► PUT _SUCCESS ─► delete the replaced files
                                                         iff the manifest is the one that was merged

Before the commit nothing is visible. After it each step may be repeated, from any point, by the
runner, by settle or by the sweeper: file names carry the attempt's token, so that a key holds this
attempt's bytes or nothing. `_SUCCESS` is the switch: a reader that follows it sees the old output
or the new, whole. `longhaul.domain.manifest` decides what it becomes. Of an output to tables, the
commits in the catalog are the switch (`longhaul.adapters.iceberg.commits`). A crash before the
first list leaves uploads without parts, which cost nothing and end by the bucket's lifecycle rule.
"""

import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypedDict

from botocore.exceptions import ClientError
from pydantic import ValidationError

from longhaul.adapters.background import Threads
from longhaul.adapters.clock import SystemClock
from longhaul.adapters.errors import code_of, retrying
from longhaul.adapters.objects import delete_keys, json_of
from longhaul.domain.errors import (
    ContendedError,
    UploadsGoneError,
    VoidCommitError,
)
from longhaul.domain.footprint import MAX_BYTES
from longhaul.domain.lease import AttemptId, CommittedOutput
from longhaul.domain.manifest import (
    MANIFEST,
    Manifest,
    Part,
    PendingOutput,
    Switch,
    Upload,
    carries_token,
    decide_switch,
    merged,
)
from longhaul.domain.paths import DataPath
from longhaul.domain.pending import PREFIX, attempt_of, is_own, pending_ref
from longhaul.domain.provenance import Origin, marks
from longhaul.ports import Background, Clock

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        CompletedPartTypeDef,
        GetObjectOutputTypeDef,
    )

    from longhaul.adapters.iceberg.commits import TablePublisher

_AT_ONCE = 16  # completing is waiting: S3 needs up to seconds for each
_DELETE_BATCH = 1_000  # DeleteObjects' limit
# 409 while another conditional write to the key is in progress, 412 after a faster one: in each
# round one of the competing publishers gets through.
_CHANGED_MEANWHILE = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}
_CONFLICT_TRIES = 12
_CONFLICT_WAIT_S = 0.2
_CONFLICT_WAIT_CAP_S = 3.0

logger = logging.getLogger(__name__)


class S3Condition(TypedDict, total=False):
    """Arguments of a conditional PUT."""

    IfMatch: str
    IfNoneMatch: str


class _NotToBeSwitchedError(Exception):
    """This output must not become visible; `why` says what is in the way."""

    def __init__(self, why: Switch) -> None:
        super().__init__(why)
        self.why = why


class S3Publisher:
    """Implements `ports.Publisher`.

    `bucket` is the data bucket, which holds the pending lists; outputs may be in others.
    """

    def __init__(
        self,
        client: "S3Client",
        bucket: str,
        clock: Clock = SystemClock(),  # noqa: B008 - stateless
        background: Background = Threads(),  # noqa: B008 - stateless
        tables: "Callable[[], TablePublisher] | None" = None,
    ) -> None:
        """`tables` makes the publisher of tables, where there are any, on first use."""
        self._make_tables = tables
        self._s3 = client
        self._bucket = bucket
        self._clock = clock
        self._background = background

    def publish(
        self,
        output: CommittedOutput,
        until: datetime | None = None,
        *,
        looks_only: bool = False,
    ) -> None:
        """Make a committed output visible.

        Repeatable; also a quiet no-op when a later run has replaced the output.

        Raises:
            TimeUpError: it was not done `until` then; what was done stays.
            UploadsGoneError: uploads are neither pending nor completed, or (`looks_only`) not yet
                completed.
            ContendedError: others changed it each time; publish again.
            NotDeletedError: it is visible, and files that it replaces are still there.
            VoidCommitError: mode `error` (or `append`) found another output in the way, or a
                table is not as the upload found it.
            ClientError: S3 refused; publish again.
        """
        pending, attempt = self._load(output.pending_ref), attempt_of(output.pending_ref)
        if pending is None or attempt is None or pending.manifest is None:
            raise UploadsGoneError(f"{output.pending_ref} does not list the uploads")
        try:
            if not self._is_switched(pending):
                self._complete_all(pending, until, looks_only=looks_only)
                if pending.tables:
                    self._tables.publish(attempt, pending.tables, until, _marks(pending.manifest))
                else:
                    self._switch(pending)
        except _NotToBeSwitchedError as error:
            if error.why is Switch.OCCUPIED:
                raise VoidCommitError(
                    f"{pending.prefix} holds another output since the commit"
                ) from error
            logger.warning("another run has replaced the output of %s", pending.token)
            self._withdraw(pending)
        self._delete(pending, filter(carries_token, pending.replaces))

    def discard(self, attempt: AttemptId) -> None:
        """Remove what an attempt without a commit left, or one whose commit is void.

        The list stays, so that this can be repeated for parts that were still on their way.
        """
        pending = self._load(pending_ref(attempt))
        if pending is not None:
            self._withdraw(pending)

    def origin(self, output: CommittedOutput) -> Origin | None:
        """What its attempt had read; None once the list is struck off, or where it does not say."""
        pending = self._load(output.pending_ref)
        manifest = pending.manifest if pending else None
        return manifest.origins[-1] if manifest and manifest.origins else None

    def listed(self) -> Iterator[AttemptId]:
        """Attempts whose pending list is there, a thousand with each call."""
        for page in self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=PREFIX
        ):
            for item in page.get("Contents", []):
                attempt = attempt_of(item["Key"])
                if attempt is not None:
                    yield attempt

    def strike_off(self, attempts: Iterable[AttemptId]) -> None:
        """Remove their pending lists; one that is not there is no error."""
        delete_keys(self._s3, self._bucket, [pending_ref(attempt) for attempt in attempts])

    def _load(self, ref: str) -> PendingOutput | None:
        found = _get(self._s3, self._bucket, ref)
        if found is None:
            return None
        body = json_of(found, MAX_BYTES)
        if body is None:
            logger.warning("%s is larger than a list that a task leaves: left alone", ref)
            return None
        pending = PendingOutput.model_validate_json(body, extra="ignore")
        if not is_own(pending, ref, self._bucket):
            logger.warning("%s names what its attempt did not write: left alone", ref)
            return None
        return pending

    @cached_property
    def _tables(self) -> "TablePublisher":
        if self._make_tables is None:
            raise RuntimeError("an output goes to a table, and the settings name no database")
        return self._make_tables()

    def _is_switched(self, pending: PendingOutput) -> bool:
        if pending.tables:
            return _is_done(self._tables.switch(pending.token, pending.tables))
        place = DataPath.on_s3(pending.prefix)
        return _stands(pending, *read_manifest(self._s3, place.bucket, place.key))

    def _withdraw(self, pending: PendingOutput) -> None:
        """Leave nothing of an output that does not become visible.

        What is not pending may have been completed. In a table it stays, invisible: another
        publisher may be about to commit it to a version of the table that allows it.
        """
        place = DataPath.on_s3(pending.prefix)

        def abort(upload: Upload) -> str | None:
            try:
                self._s3.abort_multipart_upload(
                    Bucket=place.bucket, Key=place.key + upload.path, UploadId=upload.upload_id
                )
            except ClientError as error:
                match code_of(error):
                    case "NoSuchUpload":
                        return upload.path
                    case "NoSuchBucket":
                        return None
                raise
            return None

        aborts = [partial(abort, upload) for upload in pending.uploads]
        ended = self._background.run_all(aborts, at_once=_AT_ONCE)
        if not pending.tables:
            self._delete(pending, filter(None, ended))

    def _complete_all(
        self, pending: PendingOutput, until: datetime | None, *, looks_only: bool
    ) -> None:
        """Complete the uploads, until all files are there with their sizes.

        Only what is there counts. S3 may answer a completion with 200 when the file is not there
        yet, or no more; and with NoSuchUpload while it works on an earlier one.
        """
        missing = self._missing(pending)
        if missing and not looks_only:
            completions = [partial(self._complete, pending, upload) for upload in missing]
            left_s = None if until is None else (until - self._clock.now()).total_seconds()
            self._background.run_all(completions, at_once=_AT_ONCE, within_s=left_s)
            missing = self._missing(pending)
        if missing:
            raise UploadsGoneError(
                f"{len(missing)} of {len(pending.uploads)} files of {pending.token} are not there,"
                f" {missing[0].path} for one"
            )

    def _missing(self, pending: PendingOutput) -> list[Upload]:
        """The uploads whose files are not there.

        A name carries the attempt's token, so nobody else writes it. Under SSE-KMS the ETag is no
        digest of the parts.
        """
        if not pending.uploads:
            return []
        place = DataPath.on_s3(pending.prefix)
        lists = self._s3.get_paginator("list_objects_v2")
        there = {
            item["Key"]: item["Size"]
            for folder in pending.folders
            for page in lists.paginate(Bucket=place.bucket, Prefix=place.key + folder)
            for item in page.get("Contents", [])
        }
        return [
            upload
            for upload in pending.uploads
            if there.get(place.key + upload.path) != upload.size
        ]

    def _complete(self, pending: PendingOutput, upload: Upload) -> None:
        place = DataPath.on_s3(pending.prefix)
        try:
            self._s3.complete_multipart_upload(
                Bucket=place.bucket,
                Key=place.key + upload.path,
                UploadId=upload.upload_id,
                MultipartUpload={"Parts": [_completed_part(part) for part in upload.parts]},
            )
        except ClientError as error:
            if code_of(error) != "NoSuchUpload":
                raise

    def _switch(self, pending: PendingOutput) -> None:
        """PUT the merged `_SUCCESS` iff the manifest in place is still the one that was merged.

        Raises:
            _NotToBeSwitchedError: it must not become visible.
        """
        place = DataPath.on_s3(pending.prefix)
        for _ in retrying(
            _CONFLICT_TRIES, self._clock.sleep, lambda n: _conflict_wait_s(pending.token, n)
        ):
            current, etag = read_manifest(self._s3, place.bucket, place.key)
            if _stands(pending, current, etag):
                return
            condition: S3Condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
            try:
                self._s3.put_object(
                    Bucket=place.bucket,
                    Key=place.key + MANIFEST,
                    Body=merged(pending, current).model_dump_json().encode(),
                    ContentType="application/json",
                    **condition,
                )
            except ClientError as error:
                if code_of(error) not in _CHANGED_MEANWHILE:
                    raise
            else:
                return
        raise ContendedError(f"{place.key}{MANIFEST} changed under each of {_CONFLICT_TRIES} tries")

    def _delete(self, pending: PendingOutput, paths: Iterable[str]) -> None:
        """Delete files of the output, except those that the manifest in place names.

        No rule asks for the deletion of such a file; the check keeps a bug from losing data.
        """
        doomed = set(paths) - {MANIFEST}
        if not doomed:
            return
        place = DataPath.on_s3(pending.prefix)
        manifest, _ = read_manifest(self._s3, place.bucket, place.key)
        in_use = {file.path for file in manifest.files} if manifest else set()
        delete_keys(self._s3, place.bucket, [place.key + path for path in sorted(doomed - in_use)])


def _marks(manifest: Manifest) -> dict[str, str]:
    """What a table's snapshot gets, in the place of the manifest."""
    return {
        name: value
        for origin in manifest.origins
        for name, value in marks(origin, manifest.results).items()
    }


def _conflict_wait_s(token: str, tries: int) -> float:
    """Grows, and differs between attempts, so that publishers that collided part."""
    spread = zlib.crc32(f"{token} {tries}".encode()) / 2**32
    return min(_CONFLICT_WAIT_CAP_S, _CONFLICT_WAIT_S * (1 << tries)) * spread


def _stands(pending: PendingOutput, current: Manifest | None, etag: str | None) -> bool:
    """Whether the output is visible already; False: the switch is due.

    Raises:
        _NotToBeSwitchedError: neither.
    """
    return _is_done(decide_switch(pending, current, etag))


def _is_done(decision: Switch) -> bool:
    """Raises _NotToBeSwitchedError when it can never be done."""
    if decision in (Switch.REPLACED, Switch.OCCUPIED):
        raise _NotToBeSwitchedError(decision)
    return decision is Switch.DONE


def read_manifest(
    client: "S3Client", bucket: str, prefix: str
) -> tuple[Manifest, str] | tuple[None, str | None]:
    """The manifest under a prefix and its ETag.

    (None, ETag) for a `_SUCCESS` that is not ours, (None, None) for none at all.
    """
    answer = _get(client, bucket, prefix + MANIFEST)
    if answer is None:
        return None, None
    body = json_of(answer, MAX_BYTES)
    if body is None:
        return None, answer["ETag"]
    try:
        return Manifest.model_validate_json(body, extra="ignore"), answer["ETag"]
    except ValidationError:
        return None, answer["ETag"]


def _get(client: "S3Client", bucket: str, key: str) -> "GetObjectOutputTypeDef | None":
    try:
        return client.get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if code_of(error) == "NoSuchKey":
            return None
        raise


def _completed_part(part: Part) -> "CompletedPartTypeDef":
    completed: CompletedPartTypeDef = {"PartNumber": part.n, "ETag": part.etag}
    # An upload begun with a checksum algorithm is completed with each part's checksum.
    if part.crc32 is not None:
        completed["ChecksumCRC32"] = part.crc32
    return completed
