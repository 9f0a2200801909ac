"""The objects of what a job stores: from where the job has it, and to where it needs it.

On a task's own disk they are sent, and brought back by the next attempt. On a cluster Spark writes
them where they stay.
"""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from boto3.s3.transfer import TransferConfig

from longhaul.core.errors import PermanentJobError
from longhaul.core.ports import Background
from longhaul.outputs.manifest import relative
from longhaul.runner.io.staged import OutOfDiskError
from longhaul.runner.io.written import (
    Folder,
    S3Folder,
    data_files,
    flush_below,
    regular_files,
    stored_files,
)
from longhaul.saved.record import MAX_FOLDER_FILES, FolderFile, SavedFile

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_AT_ONCE: Final = 8
_MIB: Final = 1024 * 1024
_MAX_PATH: Final = 2_000
# A file up to this size is one call.
_WHOLE: Final = 64 * _MIB
_LARGE: Final = TransferConfig(
    multipart_threshold=_WHOLE, multipart_chunksize=16 * _MIB, max_concurrency=4
)


class SavedFiles(Protocol):
    """Files of datasets. A `place` is a folder of the job's prefix, of one attempt alone."""

    def folder(self, place: str) -> Folder:
        """Where Spark writes what is to be stored there."""

    def store(self, place: str) -> tuple[SavedFile, ...]:
        """Store what is in `folder(place)`; returns its data files."""

    def bring(self, place: str, files: Sequence[SavedFile]) -> Folder:
        """Where Spark reads these files, which an attempt has stored."""

    def published_from(self, place: str) -> Folder:
        """Where stored files are, for an output; a copy on the disk is not needed any more."""


class Objects(Protocol):
    """Objects below a job's prefix, sent from and brought to files on disk."""

    def store(self, files: Mapping[str, Path]) -> None:
        """Store files under these names."""

    def bring(self, files: Mapping[str, Path]) -> None:
        """Bring the objects of these names to these files."""

    def folder(self, place: str) -> Folder:
        """Where the objects are whose names begin with `place`."""


class S3Objects:
    """`Objects`, `prefix` being the job's."""

    def __init__(
        self, client: "S3Client", bucket: str, prefix: str, background: Background
    ) -> None:
        self.bucket = bucket
        self.prefix = prefix
        self._s3 = client
        self._background = background

    def store(self, files: Mapping[str, Path]) -> None:
        tasks = [partial(self._store, name, file) for name, file in files.items()]
        self._background.run_all(tasks, at_once=_AT_ONCE)

    def bring(self, files: Mapping[str, Path]) -> None:
        tasks = [partial(self._bring, name, file) for name, file in files.items()]
        self._background.run_all(tasks, at_once=_AT_ONCE)

    def folder(self, place: str) -> S3Folder:
        return S3Folder(self.bucket, self.prefix + place)

    def _store(self, name: str, file: Path) -> None:
        if file.stat().st_size > _WHOLE:
            self._s3.upload_file(str(file), self.bucket, self.prefix + name, Config=_LARGE)
            return
        with file.open("rb") as opened:
            self._s3.put_object(Bucket=self.bucket, Key=self.prefix + name, Body=opened)

    def _bring(self, name: str, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        answer = self._s3.get_object(Bucket=self.bucket, Key=self.prefix + name)
        with answer["Body"] as body, file.open("wb") as opened:
            for chunk in iter(partial(body.read, _MIB), b""):
                opened.write(chunk)


class DiskFiles:
    """`SavedFiles` of a task with a disk of its own."""

    def __init__(self, objects: Objects, folder: Path) -> None:
        self._objects = objects
        self._folder = folder

    def published_from(self, place: str) -> Folder:
        shutil.rmtree(self.folder(place), ignore_errors=True)
        return self._objects.folder(place)

    def folder(self, place: str) -> Path:
        return self._folder / place.rstrip("/").replace("/", "-")

    def store(self, place: str) -> tuple[SavedFile, ...]:
        folder = self.folder(place)
        stored = [SavedFile(path=path, size=size) for path, size in data_files(folder)]
        self._objects.store({place + each.path: folder / each.path for each in stored})
        return tuple(stored)

    def bring(self, place: str, files: Sequence[SavedFile]) -> Folder:
        folder = self.folder(place)
        if not folder.exists():
            _require_disk(self._folder, sum(file.size for file in files))
            half = folder.with_name(f"{folder.name}.half")
            self._objects.bring({place + file.path: half / file.path for file in files})
            half.mkdir(parents=True, exist_ok=True)
            half.rename(folder)
        return folder


class BucketFiles:
    """`SavedFiles` of a cluster, whose machines share no disk: Spark writes the objects."""

    def __init__(self, client: "S3Client", objects: S3Objects) -> None:
        self._s3 = client
        self.folder = objects.folder

    def store(self, place: str) -> tuple[SavedFile, ...]:
        return tuple(stored_files(self._s3, self.folder(place)))

    def bring(self, place: str, files: Sequence[SavedFile]) -> Folder:
        del files  # what Spark left besides is hidden
        return self.folder(place)

    def published_from(self, place: str) -> Folder:
        return self.folder(place)


class ChangedWhileSentError(OSError):
    """What was sent of a file may be half of one content and half of another."""


class JobFolder:
    """A job's local folder, as it is and as it was last stored."""

    def __init__(self, objects: Objects, folder: Path) -> None:
        self._objects = objects
        self.folder = folder
        self._stored: Mapping[str, FolderFile] = {}

    def restore(self, files: Mapping[str, FolderFile]) -> None:
        """Make the folder what was stored."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _require_disk(self.folder, sum(file.size for file in files.values()))
        self._objects.bring({file.object: self.folder / path for path, file in files.items()})
        self._stored = files

    def store(self, place: str) -> dict[str, FolderFile]:
        """Store the files that changed below `place`; returns all files.

        Raises:
            ChangedWhileSentError: the next call may store it.
            NotAFileError: there is something besides regular files and folders.
            PermanentJobError: there are too many files, or one has a name that cannot be stored.
        """
        # Beside a cursor that says a line is done, the line must not be in a buffer yet.
        flush_below(self.folder)
        files = [file for file, _ in regular_files(self.folder, "the job's folder")]
        if len(files) > MAX_FOLDER_FILES:
            raise PermanentJobError(
                f"the job's folder {self.folder.name} holds more than {MAX_FOLDER_FILES:,} files:"
                " pack them together"
            )
        stored: dict[str, FolderFile] = {}
        changed: dict[str, Path] = {}
        for number, file in enumerate(files):
            path, size, digest = _stored_path(file, self.folder), file.stat().st_size, _digest(file)
            before = self._stored.get(path)
            # By the content: times lie, after an unpacked archive or a write through memory.
            if before is not None and before.sha256 == digest:
                stored[path] = before
                continue
            stored[path] = FolderFile(object=f"{place}{number}", size=size, sha256=digest)
            changed[path] = file
        self._objects.store({stored[path].object: file for path, file in changed.items()})
        for path, file in changed.items():
            if (file.stat().st_size, _digest(file)) != (stored[path].size, stored[path].sha256):
                raise ChangedWhileSentError(f"{path} has changed while it was sent")
        self._stored = stored
        return stored


def _stored_path(file: Path, folder: Path) -> str:
    """The file's path below the folder.

    Raises:
        PermanentJobError: a record cannot hold it.
    """
    path = file.relative_to(folder).as_posix()
    try:
        relative(path)
    except ValueError as error:
        raise PermanentJobError(f"job.folder: the file name {path[:200]!r} {error}") from error
    if len(path) > _MAX_PATH:
        raise PermanentJobError(
            f"job.folder: the path {path[:100]!r}… has more than {_MAX_PATH:,} characters"
        )
    return path


def _require_disk(folder: Path, size: int) -> None:
    """Before the first byte: a disk that fills up half-way fails whatever writes next.

    Raises:
        OutOfDiskError: the disk is too small; that of a larger size may do.
    """
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if size > free:
        raise OutOfDiskError(
            f"what was stored is {size / _MIB:.0f} MiB, and {free / _MIB:.0f} MiB of the disk are"
            " free"
        )


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
