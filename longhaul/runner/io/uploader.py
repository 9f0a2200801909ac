"""What Spark wrote becomes pending multipart uploads: nothing is visible before the commit."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from longhaul.core.background import Threads
from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId, CommittedOutput, NamedOutput
from longhaul.core.objects import MAX_BYTES, is_readable
from longhaul.core.places import DataPath
from longhaul.core.ports import Background
from longhaul.core.results import NOTHING, Results
from longhaul.core.settings import Mode
from longhaul.outputs.lineage import Origin
from longhaul.outputs.manifest import (
    Manifest,
    ManifestFile,
    Part,
    PendingOutput,
    Upload,
    is_of_earlier_run,
    relative,
)
from longhaul.outputs.pending import pending_ref
from longhaul.outputs.publisher import read_manifest
from longhaul.runner.io.listing import partition_columns, partitions_of
from longhaul.runner.io.staged import extension_of, parted_text
from longhaul.runner.io.written import Dataset, NoOutputError, WrittenFile, files_of, require_few
from longhaul.runner.stopping import Stop

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


@dataclass
class _Begun:
    """An upload, with the parts that are there, by number."""

    upload: Upload
    parts: dict[int, Part] = field(default_factory=dict)

    def listed(self) -> Upload:
        parts = tuple(self.parts[number] for number in sorted(self.parts))
        return self.upload.model_copy(update={"parts": parts})


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
        background: Background = Threads(),  # noqa: B008 - stateless
    ) -> None:
        """`begin` gets the bytes to come, `advance` the bytes that went."""
        self._s3 = client
        self._data_bucket = data_bucket
        self._stop = stop
        self._begin = begin
        self._advance = advance
        self._background = background
        self._begun: dict[tuple[str, str], _Begun] = {}  # by bucket and key

    def plan(
        self,
        attempt: AttemptId,
        prefix: str,
        datasets: Sequence[Dataset],
        mode: Mode = "overwrite",
        was_read: Manifest | None = None,
    ) -> UploadPlan:
        """What to upload for an output to a prefix: every file of the datasets.

        An overwrite replaces what is there now. A job that read its own output replaces the
        manifest that `was_read`: what was appended since is not in its result, and stays. An append
        replaces what an earlier run of the same job has added.

        Raises:
            NoOutputError: a script wrote nothing.
            PermanentJobError: files would be appended to files of another format or in other
                partition folders, the output would have more than MAX_FILES, or a file a name that
                it cannot have.
        """
        files = [
            file for dataset in datasets for file in files_of(self._s3, dataset, attempt.token)
        ]
        if datasets and not files and all(dataset.rows is None for dataset in datasets):
            raise NoOutputError(f"the script wrote nothing for the output {prefix}")
        place = DataPath.on_s3(prefix)
        current, etag = read_manifest(self._s3, place.bucket, place.key)
        there = current if mode == "append" else None
        if there is not None:
            _require_same_ways(there, files)
        require_few(len(files) + (len(there.files) if there else 0))
        replaced = (was_read or current) if mode == "overwrite" else None
        seen = replaced or there
        pending = PendingOutput(
            token=attempt.token,
            prefix=prefix,
            mode=mode,
            replaces_base=replaced.base if replaced else None,
            replaces_etag=etag if mode == "overwrite" else None,
            replaces=tuple(
                file.path
                for file in (seen.files if seen else ())
                if replaced or is_of_earlier_run(file.path, attempt.token)
            ),
        )
        return UploadPlan(attempt, prefix, pending, files, datasets)

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
        self._begin(sum(plan.size_bytes for plan in plans))
        for plan in plans:
            self._create(plan)
        self._list(main.attempt, map(self._pending, plans))
        for plan in plans:
            self._send(plan)
        self._list(
            main.attempt,
            [
                self._pending(plan).model_copy(
                    update={"manifest": _manifest(plan, results, origin)}
                )
                for plan in plans
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

    def _create(self, plan: UploadPlan) -> None:
        bucket, prefix = plan.place.bucket, plan.place.key

        def create(file: WrittenFile) -> None:
            self._stop.check()
            key = prefix + file.path
            answer = self._s3.create_multipart_upload(
                Bucket=bucket, Key=key, ChecksumAlgorithm="CRC32"
            )
            upload = Upload(path=file.path, upload_id=answer["UploadId"], size=file.size)
            self._begun[bucket, key] = _Begun(upload)

        self._background.run_all([partial(create, file) for file in plan.files], at_once=_AT_ONCE)

    def _pending(self, plan: UploadPlan) -> PendingOutput:
        """The plan's list with the uploads that there are."""
        place = plan.place
        begun = [self._begun[place.bucket, place.key + file.path] for file in plan.files]
        uploads = tuple(each.listed() for each in begun)
        return plan.pending.model_copy(update={"uploads": uploads})

    def _send(self, plan: UploadPlan) -> None:
        """Send the parts of all files: many at once, of one large file or of many small ones."""
        bucket, prefix = plan.place.bucket, plan.place.key

        def send(file: WrittenFile, begun: _Begun, number: int) -> None:
            self._stop.check()
            part, size = file.put_part(self._s3, bucket, prefix + file.path, begun.upload, number)
            begun.parts[number] = part
            self._advance(size)

        tasks = [
            partial(send, file, self._begun[bucket, prefix + file.path], number)
            for file in plan.files
            for number in range(1, file.part_count + 1)
        ]
        self._background.run_all(tasks, at_once=_AT_ONCE)

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
        self._s3.put_object(
            Bucket=self._data_bucket,
            Key=pending_ref(attempt),
            Body=body,
            ContentType="application/json",
        )


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


def _require_same_ways(current: Manifest, files: Sequence[WrittenFile]) -> None:
    """Refuse to append to files of another format or other partitions: no reader takes them all.

    Only where Spark wrote some of them. Files of a job's own (`job.files`) have any extensions.
    """
    for dataset in dict.fromkeys(file.dataset for file in files):
        old_paths = [file.path for file in current.of_dataset(dataset)]
        new_paths = [file.path for file in files if file.dataset == dataset]
        if any(map(_is_of_spark, (*old_paths, *new_paths))):
            _require_alike(dataset, old_paths, new_paths)


def _require_alike(dataset: str, old_paths: Sequence[str], new_paths: Sequence[str]) -> None:
    there, formats = set(map(extension_of, old_paths)), set(map(extension_of, new_paths))
    if old_paths and there != formats:
        raise PermanentJobError(
            f"output: mode is append, and dataset {dataset!r} holds {_extensions_text(there)}"
            f" files, to which {_extensions_text(formats)} files cannot be added: write the same"
            " format, or name another output"
        )
    parted, columns = _partition_columns(old_paths), _partition_columns(new_paths)
    if old_paths and parted != columns:
        raise PermanentJobError(
            f"output: mode is append, and dataset {dataset!r} is parted by {parted_text(parted)},"
            f" and the rows to add by {parted_text(columns)}, of which readers find only some: part"
            " them alike, or name another output"
        )


def _partition_columns(paths: Iterable[str]) -> set[tuple[str, ...]]:
    return {partition_columns(partitions_of(path)) for path in paths}


def _row_counts(datasets: Sequence[Dataset]) -> dict[str, int]:
    """Rows by dataset, which may come in parts; without those that are not counted."""
    rows: Counter[str] = Counter()
    for dataset in datasets:
        rows[dataset.name] += dataset.rows or 0
    unknown = {dataset.name for dataset in datasets if dataset.rows is None}
    return {name: count for name, count in rows.items() if name not in unknown}


def _is_of_spark(path: str) -> bool:
    return path.rpartition("/")[2].startswith("part-")


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


def _extensions_text(extensions: AbstractSet[str]) -> str:
    return " and ".join(sorted(extension or "nameless" for extension in extensions))
