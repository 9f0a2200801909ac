"""What Spark wrote for an attempt, and how its parts get into pending uploads.

Files on disk are sent; objects in S3 are copied inside S3.
"""

import gc
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from longhaul.core.errors import PermanentError, PermanentJobError
from longhaul.core.objects import objects_below
from longhaul.core.results import OF_OUTPUTS
from longhaul.outputs.manifest import MAIN, MAX_FILES, Part, Upload
from longhaul.outputs.partitions import PartitionBy
from longhaul.runner.io.listing import is_hidden, is_hidden_path
from longhaul.saved.record import SavedFile

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_MIB: Final = 1024 * 1024
_MIN_PART: Final = 8 * _MIB
# A part copied by S3 costs a call and no memory: as large as still splits a large file into many.
_MIN_COPIED_PART: Final = 128 * _MIB
_MAX_PARTS: Final = 10_000  # S3's limit
_OPENED: Final = Path("/proc/self/fd")
_LOOK_S = 5.0  # a look at all objects of a process takes a tenth of it, on busy cores too
# Empty objects that S3's console and some of Hadoop's file systems make for folders.
_FOLDER_MARKS: Final = ("/", "_$folder$")


class NotAFileError(PermanentError):
    """Something in the output is no regular file."""


class OpenFileError(PermanentError):
    """A file of the output is still being written when the job has ended."""


class NoOutputError(PermanentError):
    """The job ran to its end and wrote nothing."""


@dataclass(frozen=True)
class S3Folder:
    """A prefix used as a folder. `prefix` ends with a slash."""

    bucket: str
    prefix: str

    def __truediv__(self, name: str) -> "S3Folder":
        return S3Folder(self.bucket, f"{self.prefix}{name}/")

    def as_uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


Folder = Path | S3Folder


@dataclass(frozen=True)
class TableLayout:
    """What a table has to know of a dataset.

    `schema` is Spark's as JSON; `partition_by`, how its rows are split; `required`, the columns
    that are NOT NULL in the table.
    """

    schema: str
    partition_by: tuple[PartitionBy, ...]
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """What one `job.write` left.

    `name` is `.` for the output itself, else the folder below it. `rows` is exact, or None if
    unknown. `layout` is that of files for a table. `without_null`: columns that were found to hold
    no null.
    """

    name: str
    folder: Folder
    rows: int | None = None
    layout: TableLayout | None = None
    without_null: frozenset[str] = frozenset()
    # Of a part that is stored (`saved.record`): its files, below the folder. No list is needed.
    stored: tuple[SavedFile, ...] | None = None
    # Of columns that are texts in its files, or names of folders.
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    output: str = ""  # its name among the request's `outputs`; empty: the main one

    @property
    def title(self) -> str:
        """Its name among all datasets that the job has written."""
        return title_of(self.name, self.output)


def title_of(name: str, output: str) -> str:
    """The name of an output's dataset among all: its own, or `outputs.OUTPUT` and `/NAME`."""
    if not output:
        return name
    return f"{OF_OUTPUTS}{output}" if name == MAIN else f"{OF_OUTPUTS}{output}/{name}"


def field_of(output: str) -> str:
    """The field of the request that names an output; of the main one, whose name is empty, too."""
    return f"outputs.{output}" if output else "output"


def require_written(
    datasets: Iterable[Dataset], outputs: Iterable[str], *, main_may_be_empty: bool
) -> None:
    """Raises NoOutputError for an output without a dataset: the main one, or one of `outputs`."""
    written = {each.output for each in datasets}
    if "" not in written and not main_may_be_empty:
        raise NoOutputError(
            "the job ended without writing anything: call job.write, or let a script write to"
            " {output}"
        )
    for name in outputs:
        if name not in written:
            raise NoOutputError(
                f"the job wrote nothing to outputs.{name}, which its request names: call"
                f" job.write(…, output={name!r}), with no rows if there are none; or leave that"
                " output out of the request"
            )


@dataclass(frozen=True)
class _InParts:
    """A file of an output; `path` is relative to the output's prefix."""

    path: str
    dataset: str
    size: int
    least_part: ClassVar[int]

    @property
    def part_size(self) -> int:
        return max(self.least_part, ceil(self.size / _MAX_PARTS))

    @property
    def part_count(self) -> int:
        return max(1, ceil(self.size / self.part_size))  # an empty file is one empty part


@dataclass(frozen=True)
class LocalFile(_InParts):
    """One on disk."""

    file: Path
    least_part = _MIN_PART

    def put_part(
        self, client: "S3Client", bucket: str, key: str, upload: Upload, number: int
    ) -> tuple[Part, int]:
        """Put a part (`number` from 1) into the pending upload; returns it and its bytes.

        Raises:
            OpenFileError: something writes to the file still.
        """
        with open(self.file, "rb", opener=_open_itself) as opened:
            if os.fstat(opened.fileno()).st_size != self.size:
                raise OpenFileError(
                    f"output: {self.file.name} has changed while it was sent: let the job end what"
                    " writes its files (threads, processes) before it returns"
                )
            opened.seek((number - 1) * self.part_size)
            body = opened.read(self.part_size)
        return _upload_part(client, bucket, key, upload, number, body)


@dataclass(frozen=True)
class S3File(_InParts):
    """One in S3."""

    bucket: str
    key: str
    least_part = _MIN_COPIED_PART

    def put_part(
        self, client: "S3Client", bucket: str, key: str, upload: Upload, number: int
    ) -> tuple[Part, int]:
        if self.size == 0:  # it has no range of bytes to name
            return _upload_part(client, bucket, key, upload, number, b"")
        start = (number - 1) * self.part_size
        end = min(start + self.part_size, self.size)
        result = client.upload_part_copy(
            Bucket=bucket,
            Key=key,
            UploadId=upload.upload_id,
            PartNumber=number,
            CopySource={"Bucket": self.bucket, "Key": self.key},
            CopySourceRange=f"bytes={start}-{end - 1}",
        )["CopyPartResult"]
        return Part(n=number, etag=result["ETag"], crc32=result.get("ChecksumCRC32")), end - start


WrittenFile = LocalFile | S3File


def _upload_part(
    client: "S3Client", bucket: str, key: str, upload: Upload, number: int, body: bytes
) -> tuple[Part, int]:
    answer = client.upload_part(
        Bucket=bucket,
        Key=key,
        UploadId=upload.upload_id,
        PartNumber=number,
        Body=body,
        ChecksumAlgorithm="CRC32",
    )
    return Part(n=number, etag=answer["ETag"], crc32=answer.get("ChecksumCRC32")), len(body)


def require_few(count: int) -> None:
    """Raises PermanentJobError if an output would have more files than one may have."""
    if count > MAX_FILES:
        raise PermanentJobError(
            f"output: {count:,} files are more than an output may have ({MAX_FILES:,}): write"
            " fewer and larger ones (coalesce), or to another prefix"
        )


def count_files(folder: Folder) -> int:
    """How many files Spark wrote into a folder on disk; 0 for one in S3: only a list would tell."""
    if not isinstance(folder, Path):
        return 0
    return sum(sum(not is_hidden(name) for name in names) for _, _, names in os.walk(folder))


def files_of(client: "S3Client", dataset: Dataset, token: str) -> Sequence[WrittenFile]:
    """The data files of a dataset, without Spark's markers and checksums.

    Raises:
        NotAFileError: a local folder holds something besides regular files and folders.
    """
    name, folder = dataset.name, dataset.folder
    if isinstance(folder, Path):
        return [
            LocalFile(_final_path(name, path, token), name, size, folder / path)
            for path, size in data_files(folder)
        ]
    files = stored_files(client, folder) if dataset.stored is None else dataset.stored
    return [
        S3File(
            _final_path(name, file.path, token),
            name,
            file.size,
            folder.bucket,
            folder.prefix + file.path,
        )
        for file in files
    ]


def data_files(folder: Path) -> Iterator[tuple[str, int]]:
    """The path of each data file below a local folder, and its size in bytes.

    Raises:
        NotAFileError: there is something besides regular files and folders.
    """
    for file, status in regular_files(folder):
        path = file.relative_to(folder).as_posix()
        if not is_hidden_path(path):
            yield path, status.st_size


def require_closed(folder: Folder) -> None:
    """Refuse a file that is still open for writing: its last lines are on the disk once it closes.

    Raises:
        OpenFileError: this process may still write a file below the folder.
    """
    if not isinstance(folder, Path):
        return
    for _, file in _open_below(folder):
        raise OpenFileError(
            f"output: {file.name} is still open for writing when the job has ended: close it,"
            " as `with open(…)` does, or what was written last would be missing"
        )


def flush_below(folder: Path) -> None:
    """Write out the last lines of what this process has open for writing below a local folder.

    What other libraries, a compressor's among them, hold back stays there.
    """
    # The look at all objects takes time, and rarely is a file open.
    if not (numbers := {number for number, _ in _open_below(folder)}):
        return
    for each in _open_objects():
        if isinstance(each, io.TextIOWrapper | io.BufferedWriter | io.BufferedRandom):
            with suppress(io.UnsupportedOperation):  # of no file
                if not each.closed and each.fileno() in numbers:
                    each.flush()


def _open_below(folder: Path) -> Iterator[tuple[int, Path]]:
    """What this process has open for writing below a local folder, with its descriptors."""
    for opened in _OPENED.glob("*"):
        try:
            file = opened.readlink()
            flags = (_OPENED.parent / "fdinfo" / opened.name).read_text()
        except OSError:  # closed since
            continue
        is_written = int(flags.partition("flags:")[2].split()[0], 8) & os.O_ACCMODE
        if is_written and file.is_relative_to(folder.resolve()) and file.exists():
            yield int(opened.name), file


def _open_objects() -> list[io.IOBase]:
    """Whatever this process reads from or writes to.

    No other thread runs meanwhile: one that is building a tuple may not find it referenced by us.
    """
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(_LOOK_S)
    try:
        return [each for each in gc.get_objects() if issubclass(type(each), io.IOBase)]
    finally:
        sys.setswitchinterval(interval_s)


def regular_files(
    folder: Path, what: str = "the output folder"
) -> Iterator[tuple[Path, os.stat_result]]:
    """Each file below a local folder with its status, in the order of their paths.

    `what` the folder is, for an error's text.

    Raises:
        NotAFileError: there is something besides regular files and folders.
    """
    if folder.is_symlink():
        raise NotAFileError(f"{what} is a link: write into the folder itself")
    if folder.exists() and not folder.is_dir():
        raise NotAFileError(f"{what} is a file: write files into the folder")
    for file in sorted(folder.rglob("*")):
        # The entry's own status: a link would publish what it leads to, and a pipe never ends.
        status = file.lstat()
        if stat.S_ISDIR(status.st_mode):
            continue
        if not stat.S_ISREG(status.st_mode):
            name = file.relative_to(folder).as_posix()[:100]
            raise NotAFileError(
                f"{what} holds {name!r}, which is no regular file but a link, a pipe or a device:"
                " write the data itself"
            )
        yield file, status


def _open_itself(path: str, flags: int) -> int:
    """Open the file, never one that a link in its place leads to."""
    return os.open(path, flags | os.O_NOFOLLOW)


def stored_files(client: "S3Client", folder: S3Folder) -> list[SavedFile]:
    """The data files below a prefix, without Spark's markers and marks of folders."""
    return [
        SavedFile(path=path, size=item["Size"])
        for item in objects_below(client, folder.bucket, folder.prefix)
        if not item["Key"].endswith(_FOLDER_MARKS)
        and not is_hidden_path(path := item["Key"].removeprefix(folder.prefix))
    ]


def _final_path(dataset: str, path: str, token: str) -> str:
    """Where a file goes below the output."""
    folder, _, name = path.rpartition("/")
    # `.` as a first segment vanishes
    return Path(dataset, folder, final_name(name, token)).as_posix()


def final_name(name: str, token: str) -> str:
    """The file's name with the attempt's token, so that no other attempt writes the same key.

    The name stays whole: Spark's files of two appends differ in their UUID alone.
    """
    stem, dot, extensions = name.partition(".")
    return f"{stem}-{token}{dot}{extensions}"
