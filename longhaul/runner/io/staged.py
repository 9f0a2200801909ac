"""An input on the task's own disk: what the job sees, and the names of its files."""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlparse

from longhaul.core.errors import LonghaulError

# Disks take names of 255 bytes; a number, and Hadoop's `.….crc` around the name, need some.
_MAX_NAME_BYTES: Final = 200

# What Spark unpacks, by a file's name. It reads any other as plain text.
_COMPRESSIONS: Final = {"gz", "bz2", "deflate", "lz4", "snappy"}
UNREADABLE: Final = frozenset(
    {"zip", "xz", "zst", "zstd", "gzip", "7z", "rar", "tar", "tgz", "tbz2", "txz", "lzma", "z"}
)
"""Compressions that Spark does not unpack: it would read garbage, without an error."""


OF_HADOOP: Final = re.compile(r"[:*?{}\[\]\\^]")
"""What Hadoop takes for the end of a URI's scheme, or for a glob."""


class OutOfDiskError(LonghaulError):
    """The disk is too small for the inputs; that of a larger size may do."""


@dataclass(frozen=True)
class StagedInput:
    """An input on local disk.

    `path` is a folder for any of Spark's readers. Its files keep their extensions and their
    partition folders.
    """

    path: str
    files: int
    size_bytes: int
    extensions: frozenset[str]
    # Of the names, sizes and ETags of its files, or of a table's version and filter: the same means
    # the same rows.
    digest: str = ""
    # Of columns that are texts in its files, or names of folders, where Longhaul wrote them.
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    etag: str = ""  # of an input that is one object; empty where a manifest or a table names it
    # The columns of its files' partition folders: if these differ, Spark reads some files alone.
    parted_by: frozenset[tuple[str, ...]] = frozenset()


def local_path(path: str) -> str:
    """A `file:` URI as a path for `open`; another place as it is."""
    place = urlparse(path)
    return unquote(place.path) if place.scheme == "file" else path


def staged_name(number: int, name: str) -> str:
    """The name of an input's file where Spark reads it: the number keeps equal names apart.

    The end of a long name stays, because it has the extension.
    """
    end = os.fsencode(OF_HADOOP.sub("-", name))[-_MAX_NAME_BYTES:].decode(errors="ignore")
    return f"{number:05d}-{end}"


def staged_folder(partition: str) -> str:
    """The name of a partition's folder there: Spark reads what is escaped as it was."""
    return OF_HADOOP.sub(lambda found: f"%{ord(found[0]):02X}", partition)


def parted_text(columns: Collection[tuple[str, ...]]) -> str:
    """What the files of an output or an input are parted by, for people."""
    return ", and others by ".join(sorted("/".join(names) or "nothing" for names in columns))


def extension_of(name: str) -> str:
    """`csv` of `flights.csv.gz`; empty when there is none."""
    parts = name.lower().split(".")[1:]
    while parts and parts[-1] in _COMPRESSIONS:
        parts.pop()
    return parts[-1] if parts else ""
