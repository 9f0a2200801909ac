"""Buckets, and objects with their versions, tags and uploads.

The content of an object is a file of its own, which is read where it lies: a large data set takes
no memory. A file that is shorter than its object, after a crash of the machine, is said and left
out.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import logging
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, Final

from moto.s3.models import FakeDeleteMarker, FakeKey, FakeMultipart, S3Backend, s3_backends
from moto.s3.responses import S3Response

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store

LOG = logging.getLogger(__name__)
# Of a key, an upload or a marker: what is stored apart, or made again.
_APART: Final = ("_value_buffer", "lock", "multipart", "parts", "partlist", "key")


class StoredContent:
    """The content of an object: opened for each read, so that any number of objects may be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def seek(self, position: int) -> None:
        self._position = position

    def read(self, size: int = -1) -> bytes:
        with self._path.open("rb") as file:
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

    def keeping(stock: Any, keep: Callable[..., None]) -> Callable[..., Any]:
        def call(first: Any, *args: Any) -> Any:
            try:
                return stock(first, *args)
            finally:
                if store.recording:
                    keep(first, *args)

        return call

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
        patches.replace(owner, name, keeping(getattr(owner, name), keep))


def restore(store: Store, account: str, _region: str) -> None:
    backend: Any = s3_backends[account]["aws"]  # buckets of all regions
    for name, region in store.things("bucket"):
        if name not in backend.buckets:  # the others are the template's
            backend.create_bucket(name, region)
    known = set()
    for _, kept in store.things("object"):
        known |= _files(kept)
        if (bucket := backend.buckets.get(kept["bucket"])) is not None:
            _put_back(store, backend, bucket, kept)
    for path in store.objects.iterdir():
        if path.name not in known:  # left by a killed process without an object
            path.unlink()


def _put_back(store: Store, backend: Any, bucket: Any, kept: dict[str, Any]) -> None:
    versions: list[Any] = []
    for kind, attributes, tags in kept["versions"]:
        if (version := _restored(store, kind, attributes, kept)) is not None:
            if kind is FakeDeleteMarker:
                version.key = versions[-1] if versions else version
            versions.append(version)
            if tags:
                backend.tagger.tag_resource(version.arn, tags)
    if versions:
        bucket.keys.setlist(kept["key"], versions)
    for attributes, parts in kept["uploads"]:
        upload: Any = _restored(store, FakeMultipart, attributes, kept)
        found = {n: _restored(store, FakeKey, part, kept) for n, part in sorted(parts.items())}
        upload.parts = {n: part for n, part in found.items() if part is not None}
        upload.partlist = list(upload.parts)
        bucket.multiparts[upload.id] = upload


def _restored(store: Store, kind: Any, attributes: dict[str, Any], of: dict[str, Any]) -> Any:
    """None: its content is not whole."""
    made = kind.__new__(kind)
    vars(made).update(attributes)
    if kind is FakeKey:
        path = store.objects / made.stored_as
        if not path.exists() or path.stat().st_size != made.contentsize:
            LOG.warning("s3://%(bucket)s/%(key)s was not whole on the disk, and is left out", of)
            return None
        made._value_buffer, made.lock, made.multipart = StoredContent(path), Lock(), None
    return made


def _keep(store: Store, backend: Any, bucket_name: str, key: str) -> None:
    """Write down the versions and uploads of an object as they are now, and remove their files.

    Contents are written first, without the store's lock.
    """

    def there() -> tuple[list[Any], list[Any]]:
        if (bucket := backend.buckets.get(bucket_name)) is None:
            return [], []
        uploads = [each for each in list(bucket.multiparts.values()) if each.key_name == key]
        return list(bucket.keys.getlist(key, [])), uploads

    versions, uploads = there()
    for each in (*versions, *(part for upload in uploads for part in list(upload.parts.values()))):
        _store(store, each)
    name = f"{bucket_name}/{key}"
    with store.lock:
        versions, uploads = there()
        kept = {
            "bucket": bucket_name,
            "key": key,
            "versions": [
                (type(each), _attributes(each), _tags(backend, each))
                for each in versions
                if _is_kept(each)
            ],
            "uploads": [
                (
                    _attributes(each),
                    {
                        n: _attributes(part)
                        for n, part in list(each.parts.items())
                        if _is_kept(part)
                    },
                )
                for each in uploads
            ],
        }
        before = {file for _, each in store.things("object", name) for file in _files(each)}
        store.put("object", {name: kept if versions or uploads else None})
    for file in before - _files(kept):
        (store.objects / file).unlink(missing_ok=True)


def _files(kept: dict[str, Any]) -> set[str]:
    keys = [attributes for _, attributes, _ in kept["versions"]]
    keys += [part for _, parts in kept["uploads"] for part in parts.values()]
    return {each["stored_as"] for each in keys if "stored_as" in each}


def _is_kept(version: Any) -> bool:
    """Not if it came meanwhile: its own request keeps it."""
    return isinstance(version, FakeDeleteMarker) or hasattr(version, "stored_as")


def _store(store: Store, version: Any) -> None:
    """Move the content of a key from moto's memory to a file, once.

    Not before its own request has made its ETag: moto reads the content for that without the lock.
    """
    if _is_kept(version) or version._etag is None:
        return
    with version.lock:
        if _is_kept(version):
            return
        file = uuid.uuid4().hex
        try:
            version._value_buffer.seek(0)
        except ValueError:
            return  # replaced meanwhile, and closed
        with (store.objects / file).open("wb") as target:
            shutil.copyfileobj(version._value_buffer, target, 1 << 20)
        version._value_buffer.close()
        version._value_buffer = StoredContent(store.objects / file)
        version.stored_as = file
    # Its parts are in the whole.
    version.multipart = None


def _attributes(thing: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(thing).items() if name not in _APART}


def _tags(backend: Any, version: Any) -> list[dict[str, str]]:
    if isinstance(version, FakeDeleteMarker):
        return []
    tags: list[dict[str, str]] = backend.tagger.list_tags_for_resource(version.arn)["Tags"]
    return tags
