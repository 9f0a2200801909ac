"""Buckets, objects with their versions and tags, and uploads with their parts.

The content of an object is a file of its own, which is read where it lies: a large data set takes
no memory.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import inspect
import io
import json
import pickle
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock, local
from typing import Any, Final

from moto.s3.models import FakeDeleteMarker, FakeKey, FakeMultipart, S3Backend, s3_backends
from moto.s3.responses import S3Response

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store

# Of a key, an upload or a marker: what is stored apart, or made again.
_APART: Final = ("_value_buffer", "lock", "multipart", "stored_as", "parts", "partlist", "key")
_Names = list[tuple[str, ...]]


def _object(bucket: str, key: str) -> Callable[[Mapping[str, Any], Any], _Names]:
    return lambda given, _: [("object", given[bucket], given[key])]


def _bucket(given: Mapping[str, Any], _: Any) -> _Names:
    return [("bucket", given["bucket_name"])]


def _upload(given: Mapping[str, Any], _: Any) -> _Names:
    bucket = given.get("bucket_name") or given["dest_bucket_name"]
    return [("upload", bucket, given["multipart_id"], str(given.get("part_id", "")))]


def _begun_upload(given: Mapping[str, Any], upload: Any) -> _Names:
    return [("upload", given["bucket_name"], upload.id, "")]


def _complete(given: Mapping[str, Any], key: Any) -> _Names:
    became = [("object", given["bucket_name"], key.name)] if key is not None else []
    return [*became, *_upload(given, key)]


def _tagged(given: Mapping[str, Any], _: Any) -> _Names:
    return [("object", given["key"].bucket_name, given["key"].name)]


# What each call changes, by its arguments and what it returns.
_CHANGES: Final[Mapping[str, Callable[[Mapping[str, Any], Any], _Names]]] = {
    "create_bucket": _bucket,
    "delete_bucket": _bucket,
    "put_object": _object("bucket_name", "key_name"),
    "copy_object": _object("dest_bucket_name", "dest_key_name"),
    "delete_object": _object("bucket_name", "key_name"),
    "put_object_tagging": _tagged,
    "delete_object_tagging": _object("bucket_name", "key_name"),
    "create_multipart_upload": _begun_upload,
    "upload_part": _upload,
    "upload_part_copy": _upload,
    "complete_multipart_upload": _complete,
    "abort_multipart_upload": _upload,
}
_SIGNATURES: Final = {call: inspect.signature(getattr(S3Backend, call)) for call in _CHANGES}


class StoredContent(io.RawIOBase):
    """The content of an object: opened for each read, so that any number of objects may be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {
            io.SEEK_SET: 0,
            io.SEEK_CUR: self._position,
            io.SEEK_END: self._path.stat().st_size if whence == io.SEEK_END else 0,
        }
        self._position = start[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        with self._path.open("rb", buffering=0) as file:
            file.seek(self._position)
            content = bytearray()
            while size < 0 or len(content) < size:
                more = file.read(size - len(content) if size >= 0 else -1)
                if not more:
                    break
                content += more
        self._position += len(content)
        return bytes(content)


class _Request(local):
    """What the request of this thread has changed; None outside of a request."""

    names: set[tuple[str, ...]] | None = None


def apply(patches: Patches, store: Store) -> None:
    """Apply after the repairs.

    moto adds metadata to an object after it has stored it. So what a request changes is kept at the
    request's end, before its answer.
    """
    request = _Request()
    for call in _CHANGES:
        patches.replace(S3Backend, call, _reporting(call, store, request))
    for entrance in ("key_response", "bucket_response"):
        patches.replace(S3Response, entrance, _keeping(entrance, store, request))


def _reporting(call: str, store: Store, request: _Request) -> Callable[..., Any]:
    stock: Any = getattr(S3Backend, call)

    def reported(backend: Any, *args: Any, **named: Any) -> Any:
        result = stock(backend, *args, **named)
        if store.recording:
            given = _SIGNATURES[call].bind(backend, *args, **named).arguments
            names = _CHANGES[call](given, result)
            if request.names is None:
                _keep(store, backend, names)
            else:
                request.names.update(names)
        return result

    return reported


def _keeping(entrance: str, store: Store, request: _Request) -> Callable[..., Any]:
    stock: Any = getattr(S3Response, entrance)

    def respond(response: Any, *args: Any, **named: Any) -> Any:
        if request.names is not None:  # one entrance calls the other
            return stock(response, *args, **named)
        request.names = set()
        try:
            return stock(response, *args, **named)
        finally:
            names, request.names = request.names, None
            if names and store.recording:
                _keep(store, response.backend, names)

    return respond


def restore(store: Store, account: str, _region: str) -> None:
    backend: Any = s3_backends[account]["aws"]  # buckets of all regions
    for name, its_region in store.rows("SELECT name, region FROM bucket"):
        if name not in backend.buckets:  # the others are the template's
            backend.create_bucket(name, its_region)
    for bucket, key, data, tags, file in store.rows(
        "SELECT bucket, key, data, tags, file FROM object ORDER BY bucket, key, position"
    ):
        if bucket not in backend.buckets:
            continue
        keys = backend.buckets[bucket].keys
        before = keys.getlist(key, [])
        version = _restored(store, FakeKey if file else FakeDeleteMarker, data, file)
        if not file:
            version.key = before[-1] if before else version
        keys.setlist(key, [*before, version])
        if tags:
            backend.tagger.tag_resource(version.arn, json.loads(tags))
    for upload_id, bucket, data in store.rows("SELECT id, bucket, data FROM upload"):
        if bucket in backend.buckets:
            upload = _restored(store, FakeMultipart, data, None)
            upload.parts, upload.partlist = {}, []
            backend.buckets[bucket].multiparts[upload_id] = upload
    uploads = {
        each.id: each for bucket in backend.buckets.values() for each in bucket.multiparts.values()
    }
    for upload_id, number, data, file in store.rows(
        "SELECT upload, number, data, file FROM part ORDER BY upload, number"
    ):
        if (upload := uploads.get(upload_id)) is not None:
            upload.parts[number] = _restored(store, FakeKey, data, file)
            upload.partlist.append(number)


def _restored(store: Store, kind: Any, data: bytes, file: str | None) -> Any:
    made = kind.__new__(kind)
    made.__dict__.update(pickle.loads(data))  # noqa: S301 - of a folder of the user's own
    if file:
        made._value_buffer = StoredContent(store.path(file))
        made.stored_as, made.lock, made.multipart = file, Lock(), None
    return made


def _keep(store: Store, backend: Any, names: Iterable[tuple[str, ...]]) -> None:
    """Write down buckets, objects and uploads as they are now.

    Contents are written first, without the store's lock. An object comes before the upload that
    became it: a process that is killed in between has both.
    """
    discarded: set[str] = set()
    for name in sorted(names):
        match name:
            case ("bucket", bucket):
                _keep_bucket(store, backend, bucket)
            case ("object", bucket, key):
                discarded |= _keep_object(store, backend, bucket, key)
            case ("upload", bucket, upload_id, number):
                discarded |= _keep_upload(store, backend, bucket, upload_id, number)
    store.discard(discarded)


def _keep_bucket(store: Store, backend: Any, name: str) -> None:
    with store.writing() as database:
        bucket = backend.buckets.get(name)
        if bucket is None:
            database.execute("DELETE FROM bucket WHERE name = ?", (name,))
        else:
            row = (name, bucket.region_name)
            database.execute("INSERT OR REPLACE INTO bucket VALUES (?, ?)", row)


def _keep_object(store: Store, backend: Any, bucket: str, key: str) -> set[str]:
    """Returns the files that the object had and no longer has."""

    def versions() -> list[Any]:
        there = backend.buckets.get(bucket)
        return list(there.keys.getlist(key, [])) if there else []

    for version in versions():
        _store(store, version)
    with store.writing() as database:
        before = {
            file
            for (file,) in database.execute(
                "SELECT file FROM object WHERE bucket = ? AND key = ?", (bucket, key)
            )
            if file
        }
        database.execute("DELETE FROM object WHERE bucket = ? AND key = ?", (bucket, key))
        after = set()
        for position, version in enumerate(versions()):
            is_marker = isinstance(version, FakeDeleteMarker)
            file = None if is_marker else getattr(version, "stored_as", None)
            if file is None and not is_marker:
                continue  # came meanwhile: its own request keeps it
            tags = [] if is_marker else _tags(backend, version)
            after.add(file)
            database.execute(
                "INSERT INTO object VALUES (?, ?, ?, ?, ?, ?)",
                (bucket, key, position, _pickled(version), json.dumps(tags) if tags else "", file),
            )
    return before - after


def _keep_upload(store: Store, backend: Any, bucket: str, upload_id: str, number: str) -> set[str]:
    """Returns the files that the upload had and no longer has."""
    there = backend.buckets.get(bucket)
    upload = there.multiparts.get(upload_id) if there else None
    part = upload.parts.get(int(number)) if upload and number else None
    if part is not None:
        _store(store, part)
    with store.writing() as database:
        if upload is None or upload_id not in there.multiparts:
            query = "SELECT file FROM part WHERE upload = ?"
            files = {file for (file,) in database.execute(query, (upload_id,))}
            database.execute("DELETE FROM part WHERE upload = ?", (upload_id,))
            database.execute("DELETE FROM upload WHERE id = ?", (upload_id,))
            return files
        database.execute(
            "INSERT OR IGNORE INTO upload VALUES (?, ?, ?)", (upload_id, bucket, _pickled(upload))
        )
        return _keep_part(database, upload_id, part) if part is not None else set()


def _keep_part(database: sqlite3.Connection, upload_id: str, part: Any) -> set[str]:
    key = (upload_id, int(part.name))
    query = "SELECT file FROM part WHERE upload = ? AND number = ?"
    before = {file for (file,) in database.execute(query, key)}
    database.execute(
        "INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?)", (*key, _pickled(part), part.stored_as)
    )
    return before - {part.stored_as}


def _store(store: Store, version: Any) -> None:
    """Move the content of a key from moto's memory to a file, once."""
    if isinstance(version, FakeDeleteMarker) or hasattr(version, "stored_as"):
        return
    with version.lock:
        if hasattr(version, "stored_as"):
            return
        file = store.new_file()
        try:
            version._value_buffer.seek(0)
        except ValueError:
            return  # replaced meanwhile, and closed
        with store.path(file).open("wb") as target:
            shutil.copyfileobj(version._value_buffer, target, 1 << 20)
        version._value_buffer.close()
        version._value_buffer = StoredContent(store.path(file))
        version.stored_as = file
    # Its parts are in the whole.
    version.multipart = None


def _pickled(thing: Any) -> bytes:
    return pickle.dumps({n: value for n, value in vars(thing).items() if n not in _APART})


def _tags(backend: Any, version: Any) -> list[dict[str, str]]:
    tags: list[dict[str, str]] = backend.tagger.list_tags_for_resource(version.arn)["Tags"]
    return tags
