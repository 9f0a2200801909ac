"""Where an attempt works before it publishes, and how its inputs get there.

That is the task's own disk, or a hidden prefix of the data bucket that a whole cluster reaches. The
scheme of a URI says which. What moves does so by boto3's parallel multipart transfers, which serve
every S3 (decision 0028).
"""

import logging
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from boto3.s3.transfer import TransferConfig

from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId, folder_name
from longhaul.core.objects import delete_keys, objects_below
from longhaul.core.places import DataPath, InputPath, TableInput
from longhaul.core.settings import SizeName
from longhaul.runner.io.listing import (
    InputListing,
    Source,
    find,
    is_hidden,
    staged_at,
    staged_path,
)
from longhaul.runner.io.saved_files import BucketFiles, DiskFiles, S3Objects, SavedFiles
from longhaul.runner.io.staged import OF_HADOOP, OutOfDiskError, StagedInput
from longhaul.runner.io.transfer import Moving, look_twice, transfer
from longhaul.runner.io.written import Folder, S3Folder

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from longhaul.runner.io.table_inputs import PlannedTable
    from longhaul.runner.io.table_rows import StagedFile, StagedTable

Placed = tuple[Path, Source]

logger = logging.getLogger(__name__)

_MIB: Final = 1024 * 1024
_GIB: Final = 1024 * _MIB
# Parts of 16 MiB in 16 threads keep a task's network busy in 256 MiB of memory at most.
_DOWNLOADS: Final = TransferConfig(
    multipart_threshold=32 * _MIB, multipart_chunksize=16 * _MIB, max_concurrency=16
)
# A copy costs a call, and no bandwidth of ours.
_COPIES: Final = TransferConfig(
    multipart_threshold=512 * _MIB, multipart_chunksize=128 * _MIB, max_concurrency=32
)
# Left free for shuffle and output: the errors of a full disk do not name it as the reason.
_DISK_RESERVE_FRACTION: Final = 0.5
_DISK_RESERVE_BYTES: Final = 256 * _MIB
# Files of tables that are written again at once, in some 100 MiB of memory each.
_REWRITES: Final = 4
# Beside the inputs, whose names have no dot.
_DELETES: Final = ".row-deletes"
# Hadoop's globs have more operators than ours: to Spark a path with one of these means another set.
_SPECIAL: Final = re.compile(r"[{}\[\]\\^]")
_GLOB: Final = re.compile(r"[*?]")


class WorkArea(Protocol):
    @property
    def output(self) -> Folder:
        """Files below it are published when the job has succeeded."""

    def stage(
        self, listing: InputListing, inputs: Mapping[str, InputPath], moving: Moving
    ) -> Mapping[str, StagedInput]:
        """List the inputs, and bring them to where the job reads them.

        Raises:
            PermanentJobError: an input is missing, empty or archived, a table cannot be read, or
                the area is not one for it.
            InputChangingError: files vanished while they were read, twice.
            StopRequestedError: the attempt has to stop.
        """

    def saved_files(self, objects: S3Objects) -> SavedFiles:
        """Where the job's attempts store data frames for one another."""

    def clear(self) -> None:
        """Delete it.

        Raises:
            NotDeletedError: S3 has kept some of it.
        """


def area_at(uri: str, client: "S3Client", attempt: AttemptId, disk: "DiskArea") -> WorkArea:
    """An attempt's work area on a cluster: below an `s3://` URI, or for `file:` the shared disk."""
    return BucketArea.at(uri, client, attempt) if uri.startswith("s3://") else disk


@dataclass(frozen=True)
class DiskArea:
    """A folder of the machine's disk, to which the inputs come; also one that machines share.

    `disk_gib` is the disk of each size: inputs for which none is large enough are refused.
    """

    client: "S3Client"
    folder: Path
    disk_gib: Mapping[SizeName, int]

    @property
    def output(self) -> Folder:
        return self.folder / "output"

    def saved_files(self, objects: S3Objects) -> SavedFiles:
        return DiskFiles(objects, self.folder / "saved")

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def stage(
        self, listing: InputListing, inputs: Mapping[str, InputPath], moving: Moving
    ) -> Mapping[str, StagedInput]:
        """As in `WorkArea`.

        Raises:
            PermanentJobError: also where no size has a disk for the inputs.
            OutOfDiskError: the disk is too small.
        """
        return look_twice(lambda: self._stage(listing, inputs, moving))

    def _stage(
        self, listing: InputListing, inputs: Mapping[str, InputPath], moving: Moving
    ) -> dict[str, StagedInput]:
        shutil.rmtree(self._inputs, ignore_errors=True)  # of a look before
        sources = find(listing, inputs)
        tables = listing.tables_of(inputs)
        moving.stop.check()
        staged = {name: self._staged_table(name, table) for name, table in tables.items()}
        of_tables = [each for table in staged.values() for each in table.downloads()]
        local = {name: files for name, files in sources.items() if not files[0].bucket}
        remote = {name: files for name, files in sources.items() if name not in local}
        size = sum(each.size for files in remote.values() for each in files)
        size += sum(source.size for _, source in of_tables)
        self._inputs.mkdir(parents=True, exist_ok=True)
        self._check_disk(size)
        moving.begin(size)
        for place, source in _in_folders(self._places(local)):
            place.symlink_to(source.key)
        if remote or of_tables:
            self._download(_in_folders(chain(of_tables, self._places(remote))), moving)
        self._make_plain([file for each in staged.values() for file in each.files], moving)
        return {name: each.as_input() for name, each in staged.items()} | {
            name: staged_at((self._inputs / name).as_uri(), files)
            for name, files in sources.items()
        }

    @property
    def _inputs(self) -> Path:
        return self.folder / "inputs"

    def _staged_table(self, name: str, table: "PlannedTable") -> "StagedTable":
        from longhaul.runner.io.table_rows import StagedTable  # noqa: PLC0415 - takes a third of a second

        return StagedTable(table, self._inputs / name, self._inputs / _DELETES / name)

    def _make_plain(self, files: "Sequence[StagedFile]", moving: Moving) -> None:
        """Write those again of which Spark would read other rows than the table has."""
        rewrites = [file for file in files if not file.is_plain]
        if not rewrites:
            return
        logger.info("%d files of tables are written again, of %d", len(rewrites), len(files))
        moving.begin(sum(file.size for file in rewrites))
        with ThreadPoolExecutor(_REWRITES, thread_name_prefix="rewriting") as pool:
            futures = {pool.submit(file.rewrite, moving.stop.check): file for file in rewrites}
            try:
                for future in as_completed(futures):
                    future.result()
                    moving.advance(futures[future].size)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        shutil.rmtree(self._inputs / _DELETES, ignore_errors=True)

    def _places(self, inputs: Mapping[str, Sequence[Source]]) -> Iterator[Placed]:
        """Where each file goes."""
        for name, files in inputs.items():
            for number, source in enumerate(files):
                yield self._inputs / name / staged_path(number, source), source

    def _check_disk(self, size: int) -> None:
        """Before the first byte: a disk that fills up half-way fails whatever writes next."""
        disk = shutil.disk_usage(self._inputs)
        needed = size + max(_DISK_RESERVE_BYTES, int(size * _DISK_RESERVE_FRACTION))
        if disk.free >= needed:
            return
        text = (
            f"the inputs are {size / _MIB:.0f} MiB and need {needed / _MIB:.0f} MiB of disk, of"
            f" which {disk.free / _MIB:.0f} MiB are free"
        )
        whole_gib = (needed + disk.used) / _GIB
        name, gib = max(self.disk_gib.items(), key=lambda each: each[1], default=("", 0))
        if name and gib < whole_gib:
            raise PermanentJobError(
                f"{text}: the largest size, {name}, has {gib} GiB; use the engine emr-serverless,"
                " or split the inputs over several jobs"
            )
        raise OutOfDiskError(text)

    def _download(self, files: Iterator[Placed], moving: Moving) -> None:
        transfer(
            self.client,
            _DOWNLOADS,
            files,
            lambda manager, source, place, subscribers: manager.download(
                source.bucket,
                source.key,
                str(place),
                subscribers=subscribers,
            ),
            condition="IfMatch",
            moving=moving,
        )


def _in_folders(places: Iterable[Placed]) -> Iterator[Placed]:
    """The same; the folder of each is made when it is its turn."""
    last = None
    for place, source in places:
        if place.parent != last:
            last = place.parent
            last.mkdir(parents=True, exist_ok=True)
        yield place, source


@dataclass(frozen=True)
class BucketArea:
    """A hidden prefix of the data bucket for one attempt alone; no input can be a part of it.

    Spark reads inputs where they are, or from copies inside S3. It lists a path by itself, later
    than we do. So a path stays only if it cannot change meanwhile and Spark reads it as we do.
    Outputs of ours are copied: files come and go while a new one is published, and only the
    manifest says which belong together. So are folders that Spark would skip, and what a path finds
    that could also lead Spark into `longhaul/`.
    """

    client: "S3Client"
    folder: S3Folder

    @classmethod
    def at(cls, uri: str, client: "S3Client", attempt: AttemptId) -> "BucketArea":
        """That of an attempt, below the prefix of all."""
        place = DataPath.on_s3(uri)
        folder = f"{place.key}{folder_name(attempt.key)}/{attempt.run}-{attempt.attempt}/"
        return cls(client, S3Folder(place.bucket, folder))

    @property
    def output(self) -> Folder:
        return self.folder / "output"

    def saved_files(self, objects: S3Objects) -> SavedFiles:
        return BucketFiles(self.client, objects)

    def clear(self) -> None:
        found = objects_below(self.client, self.folder.bucket, self.folder.prefix)
        delete_keys(self.client, self.folder.bucket, [item["Key"] for item in found])

    def stage(
        self, listing: InputListing, inputs: Mapping[str, InputPath], moving: Moving
    ) -> Mapping[str, StagedInput]:
        """The inputs as paths for Spark; copies are in the layout of staging to disk."""
        paths: dict[str, DataPath] = {}
        for name, path in inputs.items():
            if isinstance(path, TableInput):
                raise PermanentJobError(
                    f"input {name!r}: a cluster reads no tables: send the job to engine fargate"
                )
            if path.scheme == "file":
                raise PermanentJobError(
                    f"input {name!r}: file: paths are on one machine, which a cluster does not"
                    " reach"
                )
            paths[name] = path
        folders = iter((self.folder / "inputs/first", self.folder / "inputs/again"))
        return look_twice(lambda: self._stage(listing, paths, next(folders), moving))

    def _stage(
        self,
        listing: InputListing,
        paths: Mapping[str, DataPath],
        target: S3Folder,
        moving: Moving,
    ) -> dict[str, StagedInput]:
        sources = find(listing, paths)
        moving.stop.check()
        in_place = {name for name, path in paths.items() if _stays(path, sources[name], listing)}
        copied = {name: files for name, files in sources.items() if name not in in_place}
        moving.begin(sum(source.size for files in copied.values() for source in files))
        transfer(
            self.client,
            _COPIES,
            (
                ((target / name).prefix + staged_path(number, source), source)
                for name, files in copied.items()
                for number, source in enumerate(files)
            ),
            lambda manager, source, key, subscribers: manager.copy(
                {"Bucket": source.bucket, "Key": source.key},
                target.bucket,
                key,
                # Without tags: their copy needs rights that nothing else here needs.
                extra_args={"TaggingDirective": "REPLACE"},
                subscribers=subscribers,
            ),
            condition="CopySourceIfMatch",
            moving=moving,
        )
        return {
            name: staged_at(
                _path_of(paths[name], files) if name in in_place else (target / name).as_uri(),
                files,
            )
            for name, files in sources.items()
        }


def _stays(path: DataPath, sources: list[Source], listing: InputListing) -> bool:
    """Whether Spark may read the path itself."""
    prefix = f"{str(path).rstrip('/')}/"
    glob = _GLOB.search(prefix)
    base = prefix[: prefix.rfind("/", 0, glob.start()) + 1] if glob else prefix
    is_ours = any(base.startswith(found) or found.startswith(base) for found in listing.manifests)
    return reads_alike(path, sources) and not is_ours and not listing.may_meet_ours(path)


def reads_alike(path: DataPath, sources: list[Source]) -> bool:
    """Whether Spark, given the path, reads exactly these files, and their folders as we do."""
    key = path.key.rstrip("/")
    # Spark skips a hidden file also where the path names it.
    if _SPECIAL.search(key) or any(
        is_hidden(source.name) or OF_HADOOP.search(source.name) for source in sources
    ):
        return False
    if _GLOB.search(key):
        # Only files that the glob itself matches: Spark and we search folders in different ways.
        depth = key.count("/")
        return all(source.key.count("/") == depth for source in sources)
    if [source.key for source in sources] == [key]:
        return True
    base = f"{key}/".lstrip("/")
    return all(
        source.key == "/".join((base.rstrip("/"), *source.partitions, source.name)).lstrip("/")
        for source in sources
    )


def _path_of(path: DataPath, sources: list[Source]) -> str:
    """As Spark wants it: a prefix ends with a slash, so that it is never taken for an object."""
    key = path.key.rstrip("/")
    is_prefix = not _GLOB.search(key) and [source.key for source in sources] != [key]
    return f"s3://{path.bucket}/{key}/" if is_prefix and key else f"s3://{path.bucket}/{key}"
