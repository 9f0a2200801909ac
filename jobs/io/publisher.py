"""What Spark wrote becomes pending multipart uploads: nothing is visible before the commit."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from jobs.io.staging import extension_of
from jobs.io.written import Dataset, NoOutputError, WrittenFile, files_of
from jobs.stopping import Stop
from longhaul.adapters.s3_publisher import TOKEN_METADATA, read_manifest, split_prefix
from longhaul.domain.errors import PermanentJobError
from longhaul.domain.lease import AttemptId, CommittedOutput
from longhaul.domain.manifest import Manifest, ManifestFile, Part, PendingOutput, Upload
from longhaul.domain.pending import pending_ref
from longhaul.domain.request import Mode

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Each thread holds one part in memory, unless S3 copies it: 64 MiB at the usual part size.
_THREADS: Final = 8


class Uploader:
    """Uploads an attempt's files and leaves them pending. `data_bucket` holds the pending list."""

    def __init__(
        self,
        client: "S3Client",
        data_bucket: str,
        stop: Stop,
        *,
        begin: Callable[[int], None],
        advance: Callable[[int], None],
    ) -> None:
        """`begin` is told the bytes to come, `advance` the bytes that went."""
        self._s3 = client
        self._data_bucket = data_bucket
        self._stop = stop
        self._begin = begin
        self._advance = advance

    def upload(
        self,
        attempt: AttemptId,
        prefix: str,
        datasets: Sequence[Dataset],
        mode: Mode = "overwrite",
        was_read: Manifest | None = None,
    ) -> CommittedOutput:
        """Upload every file of the datasets; what comes back is ready to be committed.

        An overwrite replaces what is there now; or, of a job that read its own output, the manifest that `was_read`: what was appended since is not in its
        result, and stays.

        Raises:
            NoOutputError: a script wrote nothing.
            PermanentJobError: files of one format would be appended to files of another.
            StopRequestedError: the attempt has to stop; its uploads are left for `Publisher.discard`.
        """
        files = [file for dataset in datasets for file in files_of(self._s3, dataset, attempt.token)]
        if datasets and not files and all(dataset.rows is None for dataset in datasets):
            raise NoOutputError("the script wrote nothing to {output}")
        bucket, key_prefix = split_prefix(prefix)
        # First of all: from here on nothing of the job runs, and what S3 keeps waiting is not the job's doing.
        self._begin(sum(file.size for file in files))
        current, etag = read_manifest(self._s3, bucket, key_prefix)
        if mode == "append" and current is not None:
            _require_same_formats(current, files)
        replaced = (was_read or current) if mode == "overwrite" else None
        uploads = self._create(bucket, key_prefix, attempt.token, files)
        pending = PendingOutput(
            token=attempt.token,
            prefix=prefix,
            mode=mode,
            replaces_base=replaced.base if replaced else None,
            replaces_etag=etag if mode == "overwrite" else None,
            replaces=tuple(file.path for file in replaced.files) if replaced else (),
            uploads=tuple(uploads),
        )
        self._list(attempt, pending)
        manifest = Manifest(
            key=attempt.key,
            run=attempt.run,
            attempt=attempt.attempt,
            files=tuple(ManifestFile(path=file.path, size=file.size, dataset=file.dataset) for file in files),
            rows={dataset.name: dataset.rows for dataset in datasets if dataset.rows is not None},
        )
        sent = self._send(bucket, key_prefix, files, uploads)
        self._list(attempt, pending.model_copy(update={"uploads": tuple(sent), "manifest": manifest}))
        return CommittedOutput(
            attempt=attempt.attempt,
            pending_ref=pending_ref(attempt),
            prefix=prefix,
            files=len(files),
            size_bytes=sum(file.size for file in files),
        )

    def _create(self, bucket: str, prefix: str, token: str, files: Sequence[WrittenFile]) -> list[Upload]:
        def create(file: WrittenFile) -> Upload:
            self._stop.check()
            answer = self._s3.create_multipart_upload(
                Bucket=bucket, Key=prefix + file.path, Metadata={TOKEN_METADATA: token}, ChecksumAlgorithm="CRC32"
            )
            return Upload(path=file.path, upload_id=answer["UploadId"], size=file.size)

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="create") as pool:
            return list(pool.map(create, files))

    def _send(self, bucket: str, prefix: str, files: Sequence[WrittenFile], uploads: Sequence[Upload]) -> list[Upload]:
        """Send the parts of all files, many at once, whether of one large file or of thousands of small ones."""

        def send(file: WrittenFile, upload: Upload, number: int) -> Part:
            self._stop.check()
            part, size = file.put_part(self._s3, bucket, prefix + file.path, upload, number)
            self._advance(size)
            return part

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="send") as pool:
            parts = [
                [pool.submit(send, file, upload, number) for number in range(1, file.part_count + 1)]
                for file, upload in zip(files, uploads, strict=True)
            ]
            try:
                done, _ = wait([future for futures in parts for future in futures], return_when=FIRST_EXCEPTION)
                for future in done:  # the first failure ends it, not the first in order
                    future.result()
                return [
                    upload.model_copy(update={"parts": tuple(future.result() for future in futures)})
                    for upload, futures in zip(uploads, parts, strict=True)
                ]
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _list(self, attempt: AttemptId, pending: PendingOutput) -> None:
        self._s3.put_object(
            Bucket=self._data_bucket,
            Key=pending_ref(attempt),
            Body=pending.model_dump_json().encode(),
            ContentType="application/json",
        )


def _require_same_formats(current: Manifest, files: Sequence[WrittenFile]) -> None:
    """A dataset of mixed formats is one that nobody can read."""
    for dataset in dict.fromkeys(file.dataset for file in files):
        there = {extension_of(file.path) for file in current.of_dataset(dataset)}
        new = {extension_of(file.path) for file in files if file.dataset == dataset}
        if there and there != new:
            raise PermanentJobError(
                f"output: mode is append, and dataset {dataset!r} holds {_named(there)} files, to which {_named(new)} files cannot be added"
            )


def _named(extensions: set[str]) -> str:
    return " and ".join(sorted(extension or "nameless" for extension in extensions))
