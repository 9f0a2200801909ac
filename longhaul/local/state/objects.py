"""Buckets, and objects with their versions, tags and uploads.

The content of an object is a file of its own, which is read where it lies: a large data set takes
no memory. A file that is shorter than its object, after a crash of the machine, is said and left
out.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import logging
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from moto.s3.models import FakeDeleteMarker, FakeKey, FakeMultipart, S3Backend, s3_backends
from moto.s3.responses import S3Response

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store, keep_after

LOG = logging.getLogger(__name__)


class StoredContent:
    """The content of an object: opened for each read, so that any number of objects may be."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0

    def seek(self, position: int) -> None:
        self._position = position

    def read(self, size: int = -1) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self._position)
            content = file.read(size)
        self._position += len(content)
        return content

    def close(self) -> None:
        """Nothing is open."""


def apply(patches: Patches, store: Store) -> None:
    """Apply after the repairs.

    moto adds metadata to an object after it has stored it. So what a request changes is kept at the
    request's end, before its answer.
    """

    def keep_bucket(response: Any, request: Any, _url: str) -> None:
        if request.method in {"PUT", "DELETE"}:
            bucket = response.backend.buckets.get(response.bucket_name)
            store.put("bucket", {response.bucket_name: bucket and bucket.region_name})

    def keep_key(response: Any, request: Any, _url: str) -> None:
        if request.method not in {"GET", "HEAD"}:
            _keep(store, response.backend, response.bucket_name, response.parse_key_name())

    def keep_deleted(backend: Any, bucket: str, objects: list[dict[str, Any]], *_: Any) -> None:
        for each in objects:
            _keep(store, backend, bucket, each["Key"])

    for owner, name, keep in (
        (S3Response, "_bucket_response", keep_bucket),
        (S3Response, "_key_response", keep_key),
        (S3Backend, "delete_objects", keep_deleted),
    ):
        keep_after(patches, store, owner, name, keep)
    patches.replace(FakeKey, "__getstate__", lambda key: _state_of(store, key))
    patches.replace(FakeKey, "__setstate__", lambda key, state: _set_state(store, key, state))
    patches.replace(FakeMultipart, "__getstate__", _state_of_upload)


def restore(store: Store, account: str, _region: str) -> None:
    backend: Any = s3_backends[account]["aws"]  # buckets of all regions
    for name, region in store.things("bucket"):
        if name not in backend.buckets:  # the others are the template's
            backend.create_bucket(name, region)
    for name, (versions, uploads, tags) in store.things("object"):
        bucket_name, _, key = name.partition("/")
        store.contents[name] = _files(versions, uploads)
        if (bucket := backend.buckets.get(bucket_name)) is None:
            continue
        if whole := [each for each in versions if _is_whole(each, name)]:
            bucket.keys.setlist(key, whole)
        for arn, pairs in tags.items():
            backend.tagger.tag_resource(arn, pairs)
        for upload in uploads:
            parts = upload.parts.items()
            upload.parts = {n: part for n, part in parts if _is_whole(part, name)}
            upload.partlist = sorted(upload.parts)
            bucket.multiparts[upload.id] = upload
    known = {path for files in store.contents.values() for path in files}
    for path in store.objects.iterdir():
        if path not in known:  # left by a killed process without an object
            path.unlink()


def _is_whole(version: Any, name: str) -> bool:
    if isinstance(version, FakeDeleteMarker):
        return True
    path = version._value_buffer.path
    version.disposed = not path.exists() or path.stat().st_size != version.contentsize
    if version.disposed:
        LOG.warning("s3://%s was not whole on the disk, and is left out", name)
    return not version.disposed


def _keep(store: Store, backend: Any, bucket_name: str, key: str) -> None:
    """Write down the versions and uploads of an object as they are now, and remove their files."""
    name = f"{bucket_name}/{key}"
    with store.lock:
        versions, uploads = [], []
        if (bucket := backend.buckets.get(bucket_name)) is not None:
            versions = [each for each in bucket.keys.getlist(key, []) if _is_made(each)]
            uploads = [each for each in list(bucket.multiparts.values()) if each.key_name == key]
        arns = {each.arn for each in versions if isinstance(each, FakeKey)}
        tags = {arn: backend.tagger.list_tags_for_resource(arn)["Tags"] for arn in arns}
        is_there = bool(versions or uploads)
        store.put("object", {name: (versions, uploads, tags) if is_there else None})
        files = _files(versions, uploads)
        before = store.contents.pop(name, set())
        if is_there:
            store.contents[name] = files
    for path in before - files:
        path.unlink(missing_ok=True)


def _files(versions: Iterable[Any], uploads: Iterable[Any]) -> set[Path]:
    keys: list[Any] = [each for each in versions if isinstance(each, FakeKey)]
    keys += [part for upload in uploads for part in list(upload.parts.values())]
    contents = [key._value_buffer for key in keys]
    return {each.path for each in contents if isinstance(each, StoredContent)}


def _is_made(version: Any) -> bool:
    """Not if it came meanwhile: its own request keeps it, once it has read it for its ETag."""
    return isinstance(version, FakeDeleteMarker) or version._etag is not None


def _state_of(store: Store, key: Any) -> dict[str, Any]:
    """What is kept of a key. Its content moves from moto's memory to a file, once."""
    with key.lock:
        if not isinstance(key._value_buffer, StoredContent):
            memory, path = key._value_buffer, store.objects / uuid.uuid4().hex
            if not memory.closed:  # another has replaced the object
                memory.seek(0)
                with path.open("wb") as target:
                    shutil.copyfileobj(memory, target, 1 << 20)
            key._value_buffer = StoredContent(path)
            memory.close()
            key.multipart = None  # its parts are in the whole
    return {name: value for name, value in vars(key).items() if name != "lock"}


def _set_state(store: Store, key: Any, state: dict[str, Any]) -> None:
    vars(key).update(state)
    key._value_buffer = StoredContent(store.objects / key._value_buffer.path.name)
    key.lock = Lock()


def _state_of_upload(upload: Any) -> dict[str, Any]:
    parts = {n: part for n, part in list(upload.parts.items()) if _is_made(part)}
    return {**vars(upload), "parts": parts}
