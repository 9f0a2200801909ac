"""Makes a committed output visible on S3, repeatably and by anyone.

    runner   create the uploads ─► list them ─► send the parts ─► list those too ─► COMMIT ─┐
             (the commit is one write of the lease)                                         │
             ┌──────────────────────────────────────────────────────────────────────────────┘
    anyone   complete the uploads ─► all files there? ─► PUT _SUCCESS ─► delete the replaced files
                                                         iff the manifest is the one that was merged

Before the commit nothing is visible. After it each step may be repeated, from any point, by the
runner, by settle or by the sweeper: file names carry the attempt's token, so that a key holds this
attempt's bytes or nothing. `_SUCCESS` is the switch: a reader that follows it sees the old output
or the new, whole. `longhaul.outputs.manifest` decides what it becomes. Of an output to tables, the
commits in the catalog are the switch (`longhaul.outputs.iceberg.commits`). Several outputs of an
attempt are in one list: the uploads of all are completed before the first switch. A crash before
the first list leaves uploads without parts, which cost nothing and end by the bucket's lifecycle
rule.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from longhaul.core.aws_errors import code_of, retrying
from longhaul.core.background import Threads
from longhaul.core.clients import SystemClock
from longhaul.core.errors import (
    ContendedError,
    TornOutputError,
    UploadsGoneError,
    VoidCommitError,
)
from longhaul.core.lease import AttemptId
from longhaul.core.objects import MAX_BYTES, delete_keys, json_of, objects_below
from longhaul.core.places import DataPath
from longhaul.core.ports import Background, Clock
from longhaul.outputs.contention import conflict_wait_s
from longhaul.outputs.lineage import Origin, marks
from longhaul.outputs.manifest import (
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
from longhaul.outputs.pending import PREFIX, attempt_of, goes_elsewhere, is_own, pending_ref

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        CompletedPartTypeDef,
        GetObjectOutputTypeDef,
    )

    from longhaul.outputs.iceberg.catalog import Tables
    from longhaul.outputs.iceberg.commits import TablePublisher

_AT_ONCE = 16  # completing is waiting: S3 needs up to seconds for each
# 409 while another conditional write to the key is in progress, 412 after a faster one: in each
# round one of the competing publishers gets through.
_CHANGED_MEANWHILE = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}
_CONFLICT_TRIES = 12

logger = logging.getLogger(__name__)


Found = tuple[Manifest, str] | tuple[None, str | None]
"""A manifest in place and its ETag, as `read_manifest` returns them."""


@dataclass(frozen=True)
class Due:
    """An output that may become visible, and the manifest in its place; None for tables."""

    output: PendingOutput
    found: Found | None


class S3Publisher:
    """Implements `pending.Publisher`.

    `bucket` is the data bucket, which holds the pending lists; outputs may be in others.
    """

    def __init__(
        self,
        client: "S3Client",
        bucket: str,
        clock: Clock = SystemClock(),  # noqa: B008 - stateless
        background: Background = Threads(),  # noqa: B008 - stateless
        tables: "Callable[[], Tables] | None" = None,
    ) -> None:
        """`tables` makes those of the catalog, where there are any, on first use."""
        self._make_tables = tables
        self._s3 = client
        self._bucket = bucket
        self._clock = clock
        self._background = background

    def publish(
        self,
        attempt: AttemptId,
        until: datetime | None = None,
        *,
        looks_only: bool = False,
        just_committed: bool = False,
        places: Collection[str] | None = None,
    ) -> None:
        """Make the output of an attempt that has committed visible.

        `just_committed`: nothing of it is completed yet, so that it is not looked for first.

        `places`: where its job's request lets outputs go. What a job's code has listed for another
        place is left alone. None: its own runner publishes, with its own rights.

        Repeatable; also a quiet no-op when a later run has replaced the output.

        Of several outputs each has a switch of its own, in an order that is always the same. The
        first is switched when all may be, and when the uploads of all are completed.

        Raises:
            TimeUpError: it was not done `until` then; what was done stays.
            UploadsGoneError: uploads are neither pending nor completed, or (`looks_only`) not yet
                completed; nothing is visible.
            ContendedError: others changed it each time; publish again.
            NotDeletedError: it is visible, and files that it replaces are still there.
            VoidCommitError: mode `error` (or `append`) found another output in the way, or a
                table is not as the upload found it; nothing is visible.
            TornOutputError: part of it is visible, and the rest can never be.
            ClientError: S3 refused; publish again.
        """
        pending = self._load(attempt)
        if pending is None:
            raise UploadsGoneError(f"no list of the uploads of {attempt.token}")
        if places is not None and goes_elsewhere(pending, places):
            raise UploadsGoneError(f"{attempt.token} lists a place that its job may not write")
        outputs = pending.outputs
        if any(each.manifest is None for each in outputs):
            raise UploadsGoneError(f"{attempt.token} does not list all parts")
        due = self._due(outputs)
        self._complete_all(
            outputs,
            [each.output for each in due],
            until,
            looks_only=looks_only,
            just_committed=just_committed,
        )
        for each in due:
            try:
                standing = self._make_visible(attempt, each, until)
            except VoidCommitError as error:
                raise self._never(outputs, each.output, error) from error
            self._require_done(outputs, each.output, standing)
        for listed in outputs:
            self._delete(listed, filter(carries_token, listed.replaces))

    def _due(self, outputs: Sequence[PendingOutput]) -> list[Due]:
        """The outputs that are not visible, and may become so.

        Raises:
            VoidCommitError, TornOutputError: as `publish`.
        """
        due = []
        for each in outputs:
            found = None if each.tables else self._manifest_of(each)
            try:
                standing = (
                    self._tables.switch(each.token, each.tables)
                    if found is None
                    else decide_switch(each, *found)
                )
            except VoidCommitError as error:
                raise self._never(outputs, each, error) from error
            if standing is Switch.DUE:
                due.append(Due(each, found))
            else:
                self._require_done(outputs, each, standing)
        return due

    def _manifest_of(self, output: PendingOutput) -> Found:
        place = DataPath.on_s3(output.prefix)
        return read_manifest(self._s3, place.bucket, place.key)

    def _make_visible(self, attempt: AttemptId, due: Due, until: datetime | None) -> Switch:
        output = due.output
        if output.tables and output.manifest is not None:
            self._tables.publish(attempt, output.tables, until, _marks(output.manifest))
            return Switch.DONE
        return self._switch(output, due.found)

    def _require_done(
        self, outputs: Sequence[PendingOutput], which: PendingOutput, standing: Switch
    ) -> None:
        """Return if nothing is left to do for an output, and leave nothing of one replaced.

        Raises:
            VoidCommitError, TornOutputError: it can never be done.
        """
        match standing:
            case Switch.REPLACED:
                logger.warning("another run has replaced the output of %s", which.token)
                self._withdraw(which)
            case Switch.OCCUPIED:
                error = VoidCommitError(f"{which.prefix} holds another output since the commit")
                raise self._never(outputs, which, error)

    def _never(
        self, outputs: Sequence[PendingOutput], which: PendingOutput, error: VoidCommitError
    ) -> Exception:
        """What it means for the attempt that one of its outputs can never become visible.

        Once another is, the job must not run again: it would add its rows twice to that one.
        """
        for other in outputs:
            if other is not which and self._has_begun(other):
                return TornOutputError(
                    f"{other.name} is published, and {which.name} never: {error}"
                )
        return error

    def _has_begun(self, output: PendingOutput) -> bool:
        """Whether any of it is, or was, visible."""
        if output.tables:
            return self._tables.has_begun(output.token, output.tables)
        manifest, _ = self._manifest_of(output)
        return manifest is not None and manifest.tells_of(output.token)

    def discard(self, attempt: AttemptId) -> None:
        """Remove what an attempt without a commit left, or one whose commit is void.

        The list stays, so that this can be repeated for parts that were still on their way.
        """
        pending = self._load(attempt)
        for each in pending.outputs if pending else ():
            self._withdraw(each)

    def origin(self, attempt: AttemptId) -> Origin | None:
        """What it had read; None once its list is struck off, or where it does not say."""
        pending = self._load(attempt)
        manifest = pending.manifest if pending else None
        return manifest.origins[-1] if manifest and manifest.origins else None

    def listed(self) -> Iterator[AttemptId]:
        """Attempts whose pending list is there, a thousand with each call."""
        for item in objects_below(self._s3, self._bucket, PREFIX):
            attempt = attempt_of(item["Key"])
            if attempt is not None:
                yield attempt

    def strike_off(self, attempts: Iterable[AttemptId]) -> None:
        """Remove their pending lists; one that is not there is no error."""
        delete_keys(self._s3, self._bucket, [pending_ref(attempt) for attempt in attempts])

    def _load(self, attempt: AttemptId) -> PendingOutput | None:
        ref = pending_ref(attempt)
        found = _get(self._s3, self._bucket, ref)
        if found is None:
            return None
        body = json_of(found, MAX_BYTES)
        if body is None:
            logger.warning("%s is larger than a list that a task leaves: left alone", ref)
            return None
        pending = PendingOutput.model_validate_json(body, extra="ignore")
        if not is_own(pending, attempt, self._bucket):
            logger.warning("%s names what its attempt did not write: left alone", ref)
            return None
        return pending

    @cached_property
    def _tables(self) -> "TablePublisher":
        if self._make_tables is None:
            raise RuntimeError("an output goes to a table, and the settings name no database")
        from longhaul.outputs.iceberg.commits import TablePublisher  # noqa: PLC0415 - takes a third of a second

        return TablePublisher(self._make_tables(), self._clock)

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
        self,
        outputs: Sequence[PendingOutput],
        due: Sequence[PendingOutput],
        until: datetime | None,
        *,
        looks_only: bool,
        just_committed: bool,
    ) -> None:
        """Complete the uploads of what is due, until all files are there with their sizes.

        Only what is there counts. S3 may answer a completion with 200 when the file is not there
        yet, or no more; and with NoSuchUpload while it works on an earlier one.
        """
        missing = (
            [(output, upload) for output in due for upload in output.uploads]
            if just_committed
            else self._missing(due)
        )
        if missing and not looks_only:
            completions = [partial(self._complete, *each) for each in missing]
            left_s = None if until is None else (until - self._clock.now()).total_seconds()
            self._background.run_all(completions, at_once=_AT_ONCE, within_s=left_s)
            missing = self._missing(due)
        if not missing:
            return
        count = sum(len(each.uploads) for each in due)
        text = (
            f"{len(missing)} of {count} files of {outputs[0].token} are not there,"
            f" {missing[0][1].path} for one"
        )
        # All were there before the first switch: somebody has deleted them since.
        if any(map(self._has_begun, outputs)):
            raise TornOutputError(f"part of the output is published, and {text}")
        raise UploadsGoneError(text)

    def _missing(self, outputs: Iterable[PendingOutput]) -> list[tuple[PendingOutput, Upload]]:
        """The uploads whose files are not there, each with its output.

        A name carries the attempt's token, so no one else writes it. Under SSE-KMS the ETag is no
        digest of the parts.
        """
        return [(output, upload) for output in outputs for upload in self._missing_of(output)]

    def _missing_of(self, pending: PendingOutput) -> list[Upload]:
        if not pending.uploads:
            return []
        place = DataPath.on_s3(pending.prefix)
        there = {
            item["Key"]: item["Size"]
            for folder in pending.folders
            for item in objects_below(self._s3, place.bucket, place.key + folder)
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

    def _switch(self, pending: PendingOutput, found: Found | None) -> Switch:
        """PUT the merged `_SUCCESS` iff the manifest in place is still the one that was merged.

        `found` is what was in place when this was found to be due.

        REPLACED, OCCUPIED: it must not become visible.
        """
        place = DataPath.on_s3(pending.prefix)
        wait_s = partial(conflict_wait_s, pending.token)
        for _ in retrying(_CONFLICT_TRIES, self._clock.sleep, wait_s):
            current, etag = found or self._manifest_of(pending)
            found = None  # if that is not the one any more
            standing = decide_switch(pending, current, etag)
            if standing is not Switch.DUE:
                return standing
            condition: dict[str, Any] = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
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
                return Switch.DONE
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


def read_manifest(client: "S3Client", bucket: str, prefix: str) -> Found:
    """The manifest under a prefix and its ETag.

    (None, ETag) for a `_SUCCESS` that is not ours, (None, None) for none at all.
    """
    answer = _get(client, bucket, prefix + MANIFEST)
    if answer is None:
        return None, None
    # One that is too large to be read is none of ours, as an empty one is.
    body = json_of(answer, MAX_BYTES) or b""
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
