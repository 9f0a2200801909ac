"""Reads which files belong to a table, by the objects alone and without a call."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import ManifestEntry
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.snapshots import Snapshot


class _Objects(FileIO):
    def __init__(self, objects: Mapping[str, Any]) -> None:
        super().__init__()
        self._objects = objects

    def new_input(self, location: str) -> InputFile:
        return _Object(location, self._objects[key_of(location)].body)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError(location)


class _Object(InputFile):
    def __init__(self, location: str, body: bytes) -> None:
        super().__init__(location)
        self._body = body

    def __len__(self) -> int:
        return len(self._body)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002, FBT001, FBT002 - pyiceberg's signature
        return BytesIO(self._body)


def live_files(objects: Mapping[str, Any], metadata: str) -> list[str]:
    """The keys of the data files of the current snapshot, once for each time that it names them.

    Raises:
        KeyError: a file of the metadata is gone.
    """
    io = _Objects(objects)
    snapshot = FromInputFile.table_metadata(io.new_input(metadata)).current_snapshot()
    return [key_of(entry.data_file.file_path) for entry in live_entries(snapshot, io)]


def live_entries(snapshot: Snapshot | None, io: FileIO) -> list[ManifestEntry]:
    return [
        entry
        for manifest in (snapshot.manifests(io) if snapshot else ())
        for entry in manifest.fetch_manifest_entry(io)
    ]


def key_of(location: str) -> str:
    return location.partition("://")[2].partition("/")[2]
