"""The work area of an attempt on one machine: a folder of its disk, to which the inputs come.

By boto3's parallel multipart transfers, which serve every S3 (decision 0028).
"""

import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from boto3.s3.transfer import TransferConfig

from longhaul.core.errors import PermanentJobError
from longhaul.core.places import InputPath
from longhaul.core.settings import SizeName
from longhaul.runner.io.listing import InputListing, Source, find, parted, staged_at, staged_path
from longhaul.runner.io.saved_files import DiskFiles, S3Objects, SavedFiles
from longhaul.runner.io.staged import OutOfDiskError, StagedInput
from longhaul.runner.io.transfer import Moving, look_twice, transfer
from longhaul.runner.io.written import Folder

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from longhaul.runner.io.table_inputs import PlannedTable
    from longhaul.runner.io.table_rows import StagedFile, StagedTable

Placed = tuple[Path, Source]

logger = logging.getLogger(__name__)

_MIB: Final = 1024 * 1024
_GIB: Final = 1024 * _MIB
# Parts of 16 MiB in 16 threads keep a task's network busy in 256 MiB of memory at most.
_TRANSFER: Final = TransferConfig(
    multipart_threshold=32 * _MIB, multipart_chunksize=16 * _MIB, max_concurrency=16
)
# Left free for shuffle and output: the errors of a full disk do not name it as the reason.
_DISK_RESERVE_FRACTION: Final = 0.5
_DISK_RESERVE_BYTES: Final = 256 * _MIB
# Files of tables that are written again at once, in some 100 MiB of memory each.
_REWRITES: Final = 4
# Beside the inputs, whose names have no dot.
_DELETES: Final = ".row-deletes"


@dataclass(frozen=True)
class DiskArea:
    """`longhaul.runner.io.work_area.WorkArea`: a folder, also one that a cluster's machines share.

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
        """List every input, and bring it.

        Raises:
            PermanentJobError: an input is missing, empty or archived, a table cannot be read, or no
                size has a disk for them.
            OutOfDiskError: the disk is too small.
            InputChangingError: files vanished while they were read, twice.
            StopRequestedError: the attempt has to stop.
        """
        return look_twice(lambda: self._stage(listing, inputs, moving))

    def _stage(
        self, listing: InputListing, inputs: Mapping[str, InputPath], moving: Moving
    ) -> dict[str, StagedInput]:
        shutil.rmtree(self._inputs, ignore_errors=True)  # of a look before
        paths, table_inputs = parted(inputs)
        sources = find(listing, paths)
        tables = listing.tables_of(table_inputs)
        moving.stop.check()
        staged = {name: self._staged_table(name, table) for name, table in tables.items()}
        of_tables = [each for table in staged.values() for each in table.downloads()]
        size = _size_of(sources) + sum(source.size for _, source in of_tables)
        self._inputs.mkdir(parents=True, exist_ok=True)
        self._check_disk(size)
        moving.begin(size)
        remote = self._link(sources)
        places = (self._places(name, files) for name, files in remote.items())
        if remote or of_tables:
            self._download(chain(_in_folders(of_tables), *places), moving)
        self._make_plain([file for each in staged.values() for file in each.files], moving)
        return {name: each.as_input() for name, each in staged.items()} | {
            name: staged_at((self._inputs / name).as_uri(), files)
            for name, files in sources.items()
        }

    @property
    def _inputs(self) -> Path:
        return self.folder / "inputs"

    def _link(self, sources: Mapping[str, list[Source]]) -> dict[str, list[Source]]:
        """Link the files of those that are on this machine; returns the others."""
        remote = {}
        for name, files in sources.items():
            if files[0].bucket:
                remote[name] = files
                continue
            for place, source in self._places(name, files):
                place.symlink_to(source.key)
        return remote

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

    def _places(self, name: str, sources: list[Source]) -> Iterator[Placed]:
        """Where each file goes, in a folder that is there."""
        folder = self._inputs / name
        return _in_folders((folder / staged_path(*each), each[1]) for each in enumerate(sources))

    def _check_disk(self, size: int) -> None:
        """Before the first byte: a disk that fills up half-way fails whatever writes next."""
        disk = shutil.disk_usage(self._inputs)
        needed = _with_reserve(size)
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
            _TRANSFER,
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


def _with_reserve(size: int) -> int:
    return size + max(_DISK_RESERVE_BYTES, int(size * _DISK_RESERVE_FRACTION))


def _size_of(inputs: Mapping[str, Sequence[Source]]) -> int:
    """The bytes that have to come; local files are linked."""
    return sum(source.size for files in inputs.values() for source in files if source.bucket)


def _in_folders(places: Iterable[Placed]) -> Iterator[Placed]:
    """The same; the folder of each is made when it is its turn."""
    last = None
    for place, source in places:
        if place.parent != last:
            last = place.parent
            last.mkdir(parents=True, exist_ok=True)
        yield place, source
