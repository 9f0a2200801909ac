"""Repairs of S3."""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import json
import re
from collections.abc import Mapping
from threading import RLock
from typing import Any, Final

from moto.events.models import events_backends
from moto.s3 import notifications
from moto.s3.exceptions import NoSuchUpload
from moto.s3.models import FakeBucket, S3Backend
from moto.s3.responses import S3Response

from longhaul.local.moto_repairs.patching import Patches


def conditional(patches: Patches) -> None:
    """Of two conditional writes of one key, one wins.

    AWS: checks the condition of a PUT (If-Match, If-None-Match) and writes in one step.

    Stock moto: handles requests in threads, so two writers can both see no key and both write it.
    """
    lock = RLock()
    stock_put = S3Response.put_object

    @patches.replacing(S3Response, "put_object")
    def put_object(response: Any) -> Any:
        if not (response.headers.get("If-Match") or response.headers.get("If-None-Match")):
            return stock_put(response)
        with lock:
            return stock_put(response)


def events(patches: Patches) -> None:
    """Objects that are created are events, where their bucket says so.

    AWS: a bucket with an EventBridge configuration publishes "Object Created" for each new object.
    The event's `detail.object` has the key as it is (not URL-encoded) and the `etag` without
    quotes. Source: "Using EventBridge" and "EventBridge event message structure" (S3 User Guide).

    Stock moto: a bucket that CloudFormation makes has no notification configuration. It writes
    `eTag`.
    """

    def change(bucket: Any, properties: Mapping[str, Any]) -> None:
        wanted = properties.get("NotificationConfiguration", {})
        if wanted.get("EventBridgeConfiguration"):
            bucket.set_notification_configuration({"EventBridgeConfiguration": {}})

    patches.complete(FakeBucket, change)

    @patches.replacing(notifications, "_send_event_bridge_message")
    def send_event(account: str, bucket: Any, event_name: Any, key: Any) -> None:
        _, kind, reason = event_name.value.split(":")
        if kind != "ObjectCreated":
            return
        detail = {
            "version": "0",
            "bucket": {"name": bucket.name},
            "object": {
                "key": key.name,
                "size": key.size,
                "etag": key.etag.strip('"'),
                "sequencer": "00617F08299329D189",
            },
            "reason": reason,
        }
        event = {
            "Source": "aws.s3",
            "DetailType": "Object Created",
            "Detail": json.dumps(detail),
            "Resources": [bucket.arn],
        }
        events_backends[account][bucket.region_name].put_events([event])


_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")


class _InParts:
    """A key whose value is read when a slice of it is asked for."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._key, name)

    @property
    def value(self) -> "_InParts":
        return self

    def __len__(self) -> int:
        return int(self._key.size)

    def __getitem__(self, part: slice) -> bytes:
        begin, end, _ = part.indices(len(self))
        with self._key.lock:
            self._key._value_buffer.seek(begin)
            return bytes(self._key._value_buffer.read(end - begin))


def ranges(patches: Patches) -> None:
    """A part of an object is read without the rest of it.

    AWS: GetObject with a Range reads that range.

    Stock moto: it reads the whole object into memory and cuts the range out. A client that reads a
    large file in many parts at once, as boto3 does, makes it copy the file for each of them.
    """
    stock = S3Response.get_object

    @patches.replacing(S3Response, "get_object")
    def get_object(response: Any) -> Any:
        if _is_range(response.headers.get("range") or ""):
            key, not_modified = response._get_key()
            if key.size:
                response._get_key = lambda: (_InParts(key), not_modified)
        return stock(response)


def _is_range(header: str) -> bool:
    """Whether moto answers it with one slice of an object that is not empty."""
    match = _RANGE.fullmatch(header)
    if match is None or match[0] == "bytes=-":
        return False
    return not (match[1] and match[2]) or int(match[1]) <= int(match[2])


def uploads(patches: Patches) -> None:
    """An aborted upload takes no parts and cannot be completed.

    AWS: UploadPart and CompleteMultipartUpload of an aborted or unknown id are a NoSuchUpload.

    Stock moto: both fail with an error of its own, which clients see as a 500 and retry.
    """
    stock_complete = S3Backend.complete_multipart_upload
    stock_part = S3Backend.upload_part

    def require(backend: Any, bucket_name: str, multipart_id: str) -> None:
        if multipart_id not in backend.get_bucket(bucket_name).multiparts:
            raise NoSuchUpload(upload_id=multipart_id)

    @patches.replacing(S3Backend, "upload_part")
    def upload_part(
        backend: Any, bucket_name: str, multipart_id: str, part_id: int, value: bytes
    ) -> Any:
        require(backend, bucket_name, multipart_id)
        return stock_part(backend, bucket_name, multipart_id, part_id, value)

    @patches.replacing(S3Backend, "complete_multipart_upload")
    def complete_multipart_upload(
        backend: Any, bucket_name: str, multipart_id: str, body: Any
    ) -> Any:
        require(backend, bucket_name, multipart_id)
        return stock_complete(backend, bucket_name, multipart_id, body)
