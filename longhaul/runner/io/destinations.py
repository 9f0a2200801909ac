"""Where an output goes: a prefix with a manifest, or tables.

Room is asked for before any work, and again right before the commit. If another job publishes even
after that, the manifest's conditional PUT decides: an output that must not become visible is void,
the job runs again, and this check fails it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of
from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId
from longhaul.core.objects import objects_below
from longhaul.core.places import DataPath, TableInput, TablePath, is_table
from longhaul.core.policy import require_writable
from longhaul.core.request import JobRequest
from longhaul.core.settings import Mode, Stage
from longhaul.outputs.manifest import MANIFEST, Manifest, PendingOutput, is_of_earlier_run
from longhaul.outputs.publisher import read_manifest
from longhaul.runner.io.listing import InputListing, is_foreign, partition_columns, partitions_of
from longhaul.runner.io.staged import extension_of, parted_text
from longhaul.runner.io.uploader import UploadPlan
from longhaul.runner.io.written import (
    Dataset,
    NoOutputError,
    WrittenFile,
    field_of,
    files_of,
    require_few,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from longhaul.outputs.iceberg.catalog import Tables
    from longhaul.runner.io.table_destination import TableDestination


@dataclass
class PrefixDestination:
    s3: "S3Client"
    path: DataPath
    mode: Mode
    attempt: AttemptId
    table: None = None  # of the other kind itself: then the job writes the files of tables

    def require_room(self) -> None:
        """Return if the output may go there.

        Raises:
            PermanentJobError: mode `error`, and something is there that this job has not written;
                or another mode, and there are files that no manifest of ours lists. A manifest
                beside them would hide them.
        """
        if self.mode == "error":
            # A void commit of this job may have left files.
            for name in (each for each in self._files() if self.attempt.key_hash not in each):
                current = self._manifest() if name == MANIFEST else None
                if current is None or not current.is_all_of_job(self.attempt.token):
                    whose = f", of the job {current.key!r}" if current else ""
                    raise PermanentJobError(
                        f"output: mode is error, and {self.path} holds {name}{whose}: name another"
                        " output; one of Longhaul can be replaced or added to (modes overwrite and"
                        " append)"
                    )
            return
        if self._manifest() is not None:
            return
        foreign = next(
            (name for name in self._files() if name == MANIFEST or is_foreign(name)), None
        )
        # Again: another job may have published the first manifest since.
        if foreign and self._manifest() is None:
            raise PermanentJobError(
                f"output: {self.path} holds {foreign}, and no manifest of Longhaul that says what"
                " belongs to it. An output beside it would hide it from readers: name another"
                " output, or move away what is there"
            )

    def _manifest(self) -> Manifest | None:
        return read_manifest(self.s3, self.path.bucket, self.path.key)[0]

    def _files(self) -> Iterator[str]:
        """Names below the output, without the placeholders of folders."""
        try:
            for item in objects_below(self.s3, self.path.bucket, self.path.key):
                if not item["Key"].endswith("/"):
                    yield item["Key"].removeprefix(self.path.key)
        except ClientError as error:
            if code_of(error) == "NoSuchBucket":
                raise PermanentJobError(f"output: there is no bucket {self.path.bucket}") from error
            raise

    def plan(self, datasets: Sequence[Dataset], read: InputListing) -> UploadPlan:
        """What to upload: every file of the datasets.

        An overwrite replaces what is there now, and so does mode `error`, which found only what is
        the job's own. `read` knows the versions of the job's inputs: a job that read its own output
        replaces the manifest that it followed, and what was appended since stays. An append
        replaces what an earlier run of the same job has added.

        Raises:
            NoOutputError: a script wrote nothing.
            PermanentJobError: files would be appended to files of another format or in other
                partition folders, or the output would have more than MAX_FILES.
        """
        place, token = str(self.path), self.attempt.token
        files = [file for each in datasets for file in files_of(self.s3, each, token)]
        if datasets and not files and all(each.rows is None for each in datasets):
            raise NoOutputError(f"the script wrote nothing for the output {place}")
        current, etag = read_manifest(self.s3, self.path.bucket, self.path.key)
        there = current if self.mode == "append" else None
        if there is not None:
            _require_same_ways(there, files)
        require_few(len(files) + (len(there.files) if there else 0))
        replaced = (read.manifests.get(place) or current) if self.mode != "append" else None
        seen = replaced or there
        pending = PendingOutput(
            token=token,
            prefix=place,
            mode=self.mode,
            replaces_base=replaced.base if replaced else None,
            replaces_etag=etag if self.mode == "overwrite" else None,
            replaces=tuple(
                file.path
                for file in (seen.files if seen else ())
                if replaced or is_of_earlier_run(file.path, token)
            ),
        )
        return UploadPlan(self.attempt, place, pending, files, datasets)


Destination: TypeAlias = "PrefixDestination | TableDestination"


def destinations_of(
    request: JobRequest,
    stage: Stage,
    attempt: AttemptId,
    s3: "S3Client",
    tables: "Callable[[], Tables] | None",
    *,
    again: bool = False,
) -> dict[str, Destination]:
    """Where each output goes, by its name; that of the main one is empty.

    `tables` is None on an engine that writes to prefixes alone. `again`: whether the job was run
    before.

    Raises:
        PermanentJobError: an output goes to a table there.
    """

    def destination(place: str, name: str) -> Destination:
        if not is_table(place):
            # A prefix has no partitions: it is overwritten whole.
            mode = "overwrite" if request.mode == "overwrite_partitions" else request.mode
            return PrefixDestination(s3, DataPath.prefix_of(place), mode, attempt)
        if tables is None:
            raise PermanentJobError(f"{field_of(name)}: this engine writes to prefixes alone")
        from longhaul.runner.io.table_destination import TableDestination  # noqa: PLC0415 - takes a third of a second

        return TableDestination(
            tables(),
            TablePath.of(place),
            request.mode,
            attempt,
            # The claim has checked the table. Only the job knows which others it writes beside it.
            lambda table: require_writable(table, stage),
            [TableInput.of(each) for each in request.inputs.values() if is_table(each)],
            again=again,
        )

    places = {"": request.output, **request.outputs}
    return {name: destination(place, name) for name, place in places.items()}


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


def _is_of_spark(path: str) -> bool:
    return path.rpartition("/")[2].startswith("part-")


def _extensions_text(extensions: AbstractSet[str]) -> str:
    return " and ".join(sorted(extension or "nameless" for extension in extensions))
