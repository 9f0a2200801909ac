"""What Spark wrote becomes pending multipart uploads: nothing is visible before the commit.

Uploads may begin while the job goes on (`sending_ahead`). The end takes over what is there.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, get_args

from botocore.exceptions import ClientError

from longhaul.adapters.background import Threads
from longhaul.adapters.clock import SystemClock
from longhaul.adapters.errors import code_of
from longhaul.adapters.publisher import read_manifest
from longhaul.domain.errors import PermanentJobError
from longhaul.domain.footprint import MAX_BYTES, is_readable
from longhaul.domain.lease import AttemptId, CommittedOutput, NamedOutput
from longhaul.domain.manifest import (
    Manifest,
    ManifestFile,
    Part,
    PendingOutput,
    Upload,
    relative,
)
from longhaul.domain.paths import DataPath
from longhaul.domain.pending import pending_ref
from longhaul.domain.provenance import Origin
from longhaul.domain.results import NOTHING, Results
from longhaul.job import Format
from longhaul.ports import Background, Clock
from longhaul.runner.io.frame import WriteOptions
from longhaul.runner.io.listing import partition_columns, partitions_of
from longhaul.runner.io.partitions import escaped
from longhaul.runner.io.staged import extension_of, parted_text
from longhaul.runner.io.written import Dataset, NoOutputError, WrittenFile, files_of, require_few
from longhaul.runner.stopping import Stop
from longhaul.settings import Mode

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Each holds one part in memory, unless S3 copies it: 64 MiB at the usual part size.
_AT_ONCE: Final = 8
_AT_ONCE_AHEAD: Final = 4  # the job has a use for the memory
_MAX_KEY_BYTES: Final = 1024  # S3's limit

# Rules of a bucket abort uploads of that age: of a day, at the earliest.
_TAKEN_OVER_FOR: Final = timedelta(hours=12)


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
    """An upload, with the parts that are there: each with its bytes, by its number."""

    upload: Upload
    at: datetime
    version: Hashable  # the file's
    parts: dict[int, tuple[Part, int]] = field(default_factory=dict)

    @property
    def sent_bytes(self) -> int:
        return sum(size for _, size in self.parts.values())

    def listed(self) -> Upload:
        return self.upload.model_copy(
            update={"parts": tuple(self.parts[number][0] for number in sorted(self.parts))}
        )


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
        clock: Clock = SystemClock(),  # noqa: B008 - as above
    ) -> None:
        """`begin` gets the bytes to come, `advance` the bytes that went, both of `send` alone."""
        self._s3 = client
        self._data_bucket = data_bucket
        self._stop = stop
        self._begin = begin
        self._advance = advance
        self._background = background
        self._clock = clock
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
        manifest that `was_read`: what was appended since is not in its result, and stays.

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
        pending = PendingOutput(
            token=attempt.token,
            prefix=prefix,
            mode=mode,
            replaces_base=replaced.base if replaced else None,
            replaces_etag=etag if mode == "overwrite" else None,
            replaces=tuple(file.path for file in replaced.files) if replaced else (),
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
            ChangedFileError: a file is still being written.
            StopRequestedError: the attempt has to stop; its uploads are left for
                `Publisher.discard`.
        """
        plans = (main, *beside.values())
        _require_uploadable(plans)
        self._abort_others(plans, self._stop.check)
        there = sum(begun.sent_bytes for plan in plans for begun in self._taken_over(plan).values())
        self._begin(sum(plan.size_bytes for plan in plans) - there)
        for plan in plans:
            self._create(plan, self._stop.check, _AT_ONCE)
        self._list(main.attempt, map(self._pending, plans))
        for plan in plans:
            self._send(plan, self._stop.check, self._advance, _AT_ONCE)
            for file in plan.files:
                file.require_unchanged()
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
            pending_ref=pending_ref(main.attempt),
            prefix=main.output,
            files=len(main.files),
            size_bytes=main.size_bytes,
            beside=tuple(
                NamedOutput(name, plan.output, len(plan.files), plan.size_bytes)
                for name, plan in beside.items()
            ),
        )

    def send_ahead(self, plans: Sequence[UploadPlan], go_on: Callable[[], None]) -> None:
        """Upload what is planned so far, while the job goes on; `send` takes it over.

        `go_on` is called before each call to S3, and may raise to end this. What has been created
        by then is listed, so that it can be aborted.
        """
        _require_uploadable(plans)
        self._abort_others(plans, go_on)
        try:
            for plan in plans:
                self._create(plan, go_on, _AT_ONCE_AHEAD)
        finally:
            if self._begun:
                self._list(plans[0].attempt, map(self._pending, plans))
        for plan in plans:
            self._send(plan, go_on, lambda _: None, _AT_ONCE_AHEAD)

    def _taken_over(self, plan: UploadPlan) -> dict[WrittenFile, _Begun]:
        """The uploads that were begun for these files, and that S3 still has."""
        bucket, prefix = plan.place.bucket, plan.place.key
        oldest = self._clock.now() - _TAKEN_OVER_FOR
        found = ((file, self._begun.get((bucket, prefix + file.path))) for file in plan.files)
        return {
            file: begun
            for file, begun in found
            if begun is not None and begun.version == file.version and begun.at > oldest
        }

    def _create(self, plan: UploadPlan, go_on: Callable[[], None], at_once: int) -> None:
        bucket, prefix = plan.place.bucket, plan.place.key
        there = self._taken_over(plan)

        def create(file: WrittenFile) -> None:
            go_on()
            key, now = prefix + file.path, self._clock.now()
            if (stale := self._begun.get((bucket, key))) is not None:
                self._abort(bucket, key, stale.upload)  # the next list does not name it
            answer = self._s3.create_multipart_upload(
                Bucket=bucket, Key=key, ChecksumAlgorithm="CRC32"
            )
            upload = Upload(path=file.path, upload_id=answer["UploadId"], size=file.size)
            self._begun[bucket, key] = _Begun(upload, now, file.version)

        tasks = [partial(create, file) for file in plan.files if file not in there]
        self._background.run_all(tasks, at_once=at_once)

    def _abort_others(self, plans: Sequence[UploadPlan], go_on: Callable[[], None]) -> None:
        """Abort the uploads of files that are gone: the next list does not name them."""
        planned = {
            (place.bucket, place.key + file.path)
            for plan in plans
            for place in (plan.place,)
            for file in plan.files
        }
        for bucket, key in sorted(self._begun.keys() - planned):
            go_on()
            self._abort(bucket, key, self._begun[bucket, key].upload)
            del self._begun[bucket, key]

    def _abort(self, bucket: str, key: str, upload: Upload) -> None:
        try:
            self._s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload.upload_id)
        except ClientError as error:
            if code_of(error) != "NoSuchUpload":
                raise

    def _pending(self, plan: UploadPlan) -> PendingOutput:
        """The plan's list with the uploads that there are."""
        place = plan.place
        found = (self._begun.get((place.bucket, place.key + file.path)) for file in plan.files)
        uploads = tuple(begun.listed() for begun in found if begun is not None)
        return plan.pending.model_copy(update={"uploads": uploads})

    def _send(
        self,
        plan: UploadPlan,
        go_on: Callable[[], None],
        advance: Callable[[int], None],
        at_once: int,
    ) -> None:
        """Send the parts of all files: many at once, of one large file or of many small ones."""
        bucket, prefix = plan.place.bucket, plan.place.key

        def send(file: WrittenFile, begun: _Begun, number: int) -> None:
            go_on()
            part, size = file.put_part(self._s3, bucket, prefix + file.path, begun.upload, number)
            begun.parts[number] = part, size
            advance(size)

        tasks = [
            partial(send, file, begun, number)
            for file in plan.files
            for begun in (self._begun[bucket, prefix + file.path],)
            for number in range(1, file.part_count + 1)
            if number not in begun.parts
        ]
        self._background.run_all(tasks, at_once=at_once)

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
        results=asdict(results) if results else None,
        origins=(origin,) if origin else (),
    )


def require_same_way(current: Manifest, dataset: str, how: WriteOptions) -> None:
    """Refuse to append to files of another format or other partitions before any is written.

    By their names, where these say the format: some compressions change them.
    """
    paths = [file.path for file in current.of_dataset(dataset)]
    there = set(map(extension_of, paths))
    if there and there != {how.format} and there <= {*get_args(Format)}:
        raise _other_format(dataset, there, {how.format})
    _require_parted_alike(dataset, paths, {tuple(map(escaped, how.partition_by))})


def _require_same_ways(current: Manifest, files: Sequence[WrittenFile]) -> None:
    """Refuse to append to files of another format or other partitions: no reader takes them all.

    Only where Spark wrote some of them. Files of a job's own (`job.files`) have any extensions.
    """
    for dataset in dict.fromkeys(file.dataset for file in files):
        old_paths = [file.path for file in current.of_dataset(dataset)]
        new_paths = [file.path for file in files if file.dataset == dataset]
        if not any(map(_is_of_spark, (*old_paths, *new_paths))):
            continue
        there, new = set(map(extension_of, old_paths)), set(map(extension_of, new_paths))
        if there and there != new:
            raise _other_format(dataset, there, new)
        _require_parted_alike(dataset, old_paths, _partition_columns(new_paths))


def _require_parted_alike(
    dataset: str, paths: Sequence[str], new: AbstractSet[tuple[str, ...]]
) -> None:
    there = _partition_columns(paths)
    if there and there != new:
        raise PermanentJobError(
            f"output: mode is append, and dataset {dataset!r} is parted by {parted_text(there)},"
            f" and the rows to add by {parted_text(new)}, of which readers find only some: part"
            " them alike, or name another output"
        )


def _partition_columns(paths: Iterable[str]) -> set[tuple[str, ...]]:
    return {partition_columns(partitions_of(path)) for path in paths}


def _other_format(dataset: str, there: set[str], new: set[str]) -> PermanentJobError:
    return PermanentJobError(
        f"output: mode is append, and dataset {dataset!r} holds {_extensions_text(there)} files,"
        f" to which {_extensions_text(new)} files cannot be added: write the same format, or name"
        " another output"
    )


def _row_counts(datasets: Sequence[Dataset]) -> dict[str, int]:
    """Rows by dataset, which may come in parts; without those that are not counted."""
    rows: Counter[str] = Counter()
    for dataset in datasets:
        rows[dataset.name] += dataset.rows or 0
    unknown = {dataset.name for dataset in datasets if dataset.rows is None}
    return {name: count for name, count in rows.items() if name not in unknown}


def _is_of_spark(path: str) -> bool:
    return path.rpartition("/")[2].startswith("part-")


def _require_uploadable(plans: Sequence[UploadPlan]) -> None:
    for plan in plans:
        _require_places(plan.place.key, plan.files)
    require_few(sum(len(plan.files) for plan in plans))


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


def _extensions_text(extensions: set[str]) -> str:
    return " and ".join(sorted(extension or "nameless" for extension in extensions))
