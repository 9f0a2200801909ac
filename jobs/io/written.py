"""What Spark wrote for an attempt, and how a part of it gets into a pending upload: files on disk are sent, objects in S3 are copied where they are."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from jobs.io.listing import is_hidden
from longhaul.domain.errors import PermanentError
from longhaul.domain.manifest import Part, Upload

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_MIB: Final = 1024 * 1024
_MIN_PART: Final = 8 * _MIB
# S3 copies without us: parts cost a call and no memory, so they are as large as still makes many of a large file at once.
_MIN_COPIED_PART: Final = 128 * _MIB
_MAX_PARTS: Final = 10_000  # S3's limit
# Empty objects that S3's consoles, and some of Hadoop's file systems, leave in the place of folders.
_FOLDER_MARKS: Final = ("/", "_$folder$")
# Spark names files part-<task>-<uuid>.c000.<codec>.<format>; the token takes the uuid's place.
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class NoOutputError(PermanentError):
    """The job ran to its end and wrote nothing."""


@dataclass(frozen=True)
class S3Folder:
    """A prefix that stands for a folder, as far as jobs use one. `prefix` ends with a slash."""

    bucket: str
    prefix: str

    def __truediv__(self, name: str) -> "S3Folder":
        return S3Folder(self.bucket, f"{self.prefix}{name}/")

    def as_uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


Folder = Path | S3Folder


@dataclass(frozen=True)
class Dataset:
    """What one `job.write` left. `name` is `.` for the output itself, else the folder below it; `rows` is exact, or None when not known."""

    name: str
    folder: Folder
    rows: int | None = None


class WrittenFile(Protocol):
    """One file of an output; `path` is relative to the output's prefix."""

    @property
    def path(self) -> str: ...
    @property
    def dataset(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def part_count(self) -> int: ...

    def put_part(self, client: "S3Client", bucket: str, key: str, upload: Upload, number: int) -> tuple[Part, int]:
        """Put that part (from 1) into the pending upload; answers it and its bytes."""


@dataclass(frozen=True)
class LocalFile:
    file: Path
    path: str
    dataset: str
    size: int

    @property
    def part_size(self) -> int:
        return max(_MIN_PART, ceil(self.size / _MAX_PARTS))

    @property
    def part_count(self) -> int:
        return max(1, ceil(self.size / self.part_size))  # an empty file is one empty part

    def put_part(self, client: "S3Client", bucket: str, key: str, upload: Upload, number: int) -> tuple[Part, int]:
        with self.file.open("rb") as opened:
            opened.seek((number - 1) * self.part_size)
            body = opened.read(self.part_size)
        return _sent(client, bucket, key, upload, number, body)


@dataclass(frozen=True)
class S3File:
    bucket: str
    key: str
    path: str
    dataset: str
    size: int

    @property
    def part_size(self) -> int:
        return max(_MIN_COPIED_PART, ceil(self.size / _MAX_PARTS))

    @property
    def part_count(self) -> int:
        return max(1, ceil(self.size / self.part_size))

    def put_part(self, client: "S3Client", bucket: str, key: str, upload: Upload, number: int) -> tuple[Part, int]:
        if self.size == 0:  # there is no range of bytes that could be named
            return _sent(client, bucket, key, upload, number, b"")
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


def _sent(client: "S3Client", bucket: str, key: str, upload: Upload, number: int, body: bytes) -> tuple[Part, int]:
    answer = client.upload_part(
        Bucket=bucket, Key=key, UploadId=upload.upload_id, PartNumber=number, Body=body, ChecksumAlgorithm="CRC32"
    )
    return Part(n=number, etag=answer["ETag"], crc32=answer.get("ChecksumCRC32")), len(body)


def files_of(client: "S3Client", dataset: Dataset, token: str) -> "list[LocalFile] | list[S3File]":
    """Every data file under a dataset's folder, with the name it will have; Spark's markers and checksums are left out."""
    if isinstance(dataset.folder, S3Folder):
        return _s3_files(client, dataset, dataset.folder, token)
    return local_files(dataset, dataset.folder, token)


def local_files(dataset: Dataset, folder: Path, token: str) -> list[LocalFile]:
    return [
        LocalFile(file, path, dataset.name, file.stat().st_size)
        for file in sorted(path for path in folder.rglob("*") if path.is_file())
        if (path := _final_path(dataset, file.relative_to(folder).parts, token)) is not None
    ]


def _s3_files(client: "S3Client", dataset: Dataset, folder: S3Folder, token: str) -> list[S3File]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=folder.bucket, Prefix=folder.prefix)
    return [
        S3File(folder.bucket, item["Key"], path, dataset.name, item["Size"])
        for page in pages
        for item in page.get("Contents", [])
        if not item["Key"].endswith(_FOLDER_MARKS)
        and (path := _final_path(dataset, item["Key"].removeprefix(folder.prefix).split("/"), token)) is not None
    ]


def _final_path(dataset: Dataset, parts: Iterable[str], token: str) -> str | None:
    """Where a file goes below the output; None for what is no data."""
    *folders, name = parts
    if any(map(is_hidden, (*folders, name))):
        return None
    return Path(dataset.name, *folders, final_name(name, token)).as_posix()  # `.` as a first segment vanishes


def final_name(name: str, token: str) -> str:
    """The file's name with the token of the attempt in it, so that no other attempt ever writes the same key."""
    if _UUID.search(name):
        return _UUID.sub(token, name, count=1)
    stem, dot, extensions = name.partition(".")
    return f"{stem}-{token}{dot}{extensions}"
