"""What Spark wrote becomes pending multipart uploads: nothing is visible before the commit."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from longhaul.core.background import Threads
from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId, CommittedOutput, NamedOutput
from longhaul.core.objects import MAX_BYTES, is_readable
from longhaul.core.places import DataPath
from longhaul.core.ports import Background
from longhaul.core.results import NOTHING, Results
from longhaul.outputs.lineage import Origin
from longhaul.outputs.manifest import (
    Manifest,
    ManifestFile,
    Part,
    PendingOutput,
    Upload,
    relative,
)
from longhaul.outputs.pending import pending_ref
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.written import Dataset, WrittenFile, require_few

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Each holds one part in memory, unless S3 copies it: 64 MiB at the usual part size.
_AT_ONCE: Final = 8
_MAX_KEY_BYTES: Final = 1024  # S3's limit


@dataclass(frozen=True)
class UploadPlan:
    """What an attempt uploads for one output, named as in its request.

    `pending` says where its files go, and what they replace.
    """

    attempt: AttemptId
    output: str
    pending: PendingOutput
    files: Sequence[WrittenFile]
    datasets: Sequence[Dataset]

    @property
    def place(self) -> DataPath:
        return DataPath.on_s3(self.pending.prefix)

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Uploader:
    """Uploads an attempt's files and leaves them pending. `data_bucket` holds the pending list."""

    client: "S3Client"
    data_bucket: str
    moving: Moving
    background: Background = Threads()  # noqa: RUF009 - stateless

    def send(
        self,
        main: UploadPlan,
        beside: Mapping[str, UploadPlan] = MappingProxyType({}),
        *,
        results: Results = NOTHING,
        origin: Origin | None = None,
    ) -> CommittedOutput:
        """Upload what is planned, ready to be committed: the main output, and others by name.

        Raises:
            PermanentJobError: a file has a name that it cannot have, or they are too many.
            StopRequestedError: the attempt has to stop; its uploads are left for
                `Publisher.discard`.
        """
        plans = (main, *beside.values())
        for plan in plans:
            _require_places(plan.place.key, plan.files)
        require_few(sum(len(plan.files) for plan in plans))
        self.moving.begin(sum(plan.size_bytes for plan in plans))
        created = [self._create(plan) for plan in plans]
        self._list(
            main.attempt,
            [_listed(*each) for each in zip(plans, created, strict=True)],
        )
        sent = [self._send(*each) for each in zip(plans, created, strict=True)]
        self._list(
            main.attempt,
            [
                _listed(plan, uploads, _manifest(plan, results, origin))
                for plan, uploads in zip(plans, sent, strict=True)
            ],
        )
        return CommittedOutput(
            attempt=main.attempt.attempt,
            prefix=main.output,
            files=len(main.files),
            size_bytes=main.size_bytes,
            beside=tuple(
                NamedOutput(name, len(plan.files), plan.size_bytes, plan.output)
                for name, plan in beside.items()
            ),
        )

    def _create(self, plan: UploadPlan) -> Sequence[Upload]:
        """An upload for each file, as yet without parts."""
        bucket, prefix = plan.place.bucket, plan.place.key

        def create(file: WrittenFile) -> Upload:
            self.moving.stop.check()
            answer = self.client.create_multipart_upload(
                Bucket=bucket, Key=prefix + file.path, ChecksumAlgorithm="CRC32"
            )
            return Upload(path=file.path, upload_id=answer["UploadId"], size=file.size)

        return self.background.run_all(
            [partial(create, file) for file in plan.files], at_once=_AT_ONCE
        )

    def _send(self, plan: UploadPlan, created: Sequence[Upload]) -> Sequence[Upload]:
        """Send the parts of all files: many at once, of one large file or of many small ones."""
        bucket, prefix = plan.place.bucket, plan.place.key

        def send(file: WrittenFile, upload: Upload, number: int) -> Part:
            self.moving.stop.check()
            key = prefix + file.path
            part, size = file.put_part(self.client, bucket, key, upload, number)
            self.moving.advance(size)
            return part

        begun = list(zip(plan.files, created, strict=True))
        tasks = [
            partial(send, file, upload, number)
            for file, upload in begun
            for number in range(1, file.part_count + 1)
        ]
        parts = iter(self.background.run_all(tasks, at_once=_AT_ONCE))
        return [
            upload.model_copy(update={"parts": tuple(islice(parts, file.part_count))})
            for file, upload in begun
        ]

    def _list(self, attempt: AttemptId, outputs: Iterable[PendingOutput]) -> None:
        pending, *beside = outputs
        if beside:
            pending = pending.model_copy(update={"version": 3, "beside": tuple(beside)})
        body = pending.model_dump_json().encode()
        # Before the commit: no function could publish it.
        if len(body) > MAX_BYTES or not is_readable(body):
            count = sum(len(each.uploads) for each in (pending, *beside))
            raise PermanentJobError(
                f"output: a list of {count:,} files with such names, parts and"
                " columns is more than can be published at once: write fewer and larger files"
                " (coalesce), or with shorter names"
            )
        self.client.put_object(
            Bucket=self.data_bucket,
            Key=pending_ref(attempt),
            Body=body,
            ContentType="application/json",
        )


def _listed(
    plan: UploadPlan, uploads: Sequence[Upload], manifest: Manifest | None = None
) -> PendingOutput:
    """The plan's list with its uploads; the manifest once these have all parts."""
    return plan.pending.model_copy(update={"uploads": tuple(uploads), "manifest": manifest})


def _manifest(plan: UploadPlan, results: Results, origin: Origin | None) -> Manifest:
    return Manifest(
        key=plan.attempt.key,
        run=plan.attempt.run,
        attempt=plan.attempt.attempt,
        files=tuple(
            ManifestFile(path=file.path, size=file.size, dataset=file.dataset)
            for file in plan.files
        ),
        rows=_row_counts(plan.datasets),
        types={each.name: dict(each.types) for each in plan.datasets if each.types},
        results=asdict(results) if results else None,
        origins=(origin,) if origin else (),
    )


def _row_counts(datasets: Sequence[Dataset]) -> dict[str, int]:
    """Rows by dataset, which may come in parts; without those that are not counted."""
    rows: Counter[str] = Counter()
    for dataset in datasets:
        rows[dataset.name] += dataset.rows or 0
    unknown = {dataset.name for dataset in datasets if dataset.rows is None}
    return {name: count for name, count in rows.items() if name not in unknown}


def _require_places(prefix: str, files: Sequence[WrittenFile]) -> None:
    """Refuse names before the first upload: later they would leave uploads that no list names."""
    seen: set[str] = set()
    for file in files:
        try:
            relative(file.path)
        except ValueError as error:
            raise PermanentJobError(f"output: the file name {file.path!r} {error}") from error
        if len(f"{prefix}{file.path}".encode()) > _MAX_KEY_BYTES:
            raise PermanentJobError(
                f"output: the key of {file.path} would be longer than {_MAX_KEY_BYTES} bytes"
            )
        # A second upload to a key would replace the first: one of them never gets there.
        if file.path in seen:
            raise PermanentJobError(
                f"output: two files would be {file.path}: a dataset's name is a folder of the"
                " output; give one of them another name"
            )
        seen.add(file.path)
