"""S3 in memory: objects with ETags, conditional puts, multipart uploads."""

from bisect import bisect_left, bisect_right, insort
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import BytesIO
from itertools import groupby, islice, takewhile
from typing import Any, ClassVar

from botocore.response import StreamingBody

from simulation.aws.s3.uploads import (
    AT_ONCE,
    Completing,
    Completion,
    Upload,
    content_of,
    crc32,
    digest,
)
from simulation.aws.service import Answer, Gate, Pages, RefusedError, Service, known, operation

_MAX_KEYS = 1000
_NO_SUCH_KEY = ("NoSuchKey", "The specified key does not exist.", 404)
_LAST = "\U0010ffff"  # behind each character of a name


@dataclass(frozen=True)
class Object:
    body: bytes
    etag: str
    modified_at: datetime
    metadata: Mapping[str, str]
    content_type: str

    def head(self) -> Answer:
        return {
            "ContentLength": len(self.body),
            "ContentType": self.content_type,
            "ETag": self.etag,
            "LastModified": self.modified_at,
            "Metadata": dict(self.metadata),
        }


class Objects(UserDict[str, Object]):
    """By key. Their order is kept too: a listing costs what it returns, however many there are."""

    def __init__(self) -> None:
        super().__init__()
        self._ordered: list[str] = []

    def __setitem__(self, key: str, value: Object) -> None:
        if key not in self.data:
            insort(self._ordered, key)
        self.data[key] = value

    def __delitem__(self, key: str) -> None:
        del self.data[key]
        del self._ordered[bisect_left(self._ordered, key)]

    def listed(self, prefix: str, after: str) -> Iterator[str]:
        """The keys with a prefix, in order, from the one that follows `after`."""
        begin = max(bisect_left(self._ordered, prefix), bisect_right(self._ordered, after))
        return takewhile(lambda key: key.startswith(prefix), islice(self._ordered, begin, None))


@dataclass
class Contents:
    """Of one bucket."""

    objects: Objects = field(default_factory=Objects)
    uploads: dict[str, Upload] = field(default_factory=dict)
    completed: dict[str, Answer] = field(default_factory=dict)  # by the upload's id

    def catch_up(self, now: datetime) -> None:
        """End the completions that are over by now."""
        for upload in list(self.uploads.values()):
            if upload.completing is None or upload.completing.until > now:
                continue
            completing, upload.completing = upload.completing, None
            if not completing.how.fails:
                self.complete(upload, completing.body, completing.answer, completing.until)

    def complete(self, upload: Upload, body: bytes, answer: Answer, at: datetime) -> None:
        self.objects[upload.key] = Object(
            body, answer["ETag"], at, upload.metadata, upload.content_type
        )
        self.completed[upload.id] = answer
        del self.uploads[upload.id]


class FakeS3(Service):
    service = "s3"
    page_limit: ClassVar[str] = "MaxKeys"
    paginators: ClassVar[Pages] = {
        "list_objects_v2": (("ContinuationToken", "NextContinuationToken"),),
        "list_multipart_uploads": (),
    }

    def __init__(
        self, gate: Gate, now: Callable[[], datetime], sleep: Callable[[float], object]
    ) -> None:
        """`sleep` keeps the caller waiting for an answer, in seconds."""
        super().__init__(gate, now)
        self.buckets: dict[str, Contents] = {}
        self.page_size = _MAX_KEYS
        # How S3 completes an upload to a key, and whether it repeats the answer of a completion
        # that is over. AWS documents neither.
        self.completion: Callable[[str], Completion] = lambda _key: AT_ONCE
        self.repeats_answers: Callable[[], bool] = lambda: True
        self.sleep = sleep

    def abort_older_uploads(self, than: datetime) -> None:
        """The effect of a lifecycle rule."""
        for bucket in self.buckets.values():
            for upload in [each for each in bucket.uploads.values() if each.started_at < than]:
                del bucket.uploads[upload.id]

    @operation
    def create_bucket(self, *, Bucket: str) -> Answer:
        self.buckets.setdefault(Bucket, Contents())
        return {"Location": f"/{Bucket}"}

    @operation
    def put_object(
        self,
        *,
        Bucket: str,
        Key: str,
        Body: Any = b"",
        ContentType: str = "binary/octet-stream",
        Metadata: Mapping[str, str] | None = None,
        IfMatch: str | None = None,
        IfNoneMatch: str | None = None,
    ) -> Answer:
        objects = self._bucket(Bucket).objects
        _check_condition(objects.get(Key), IfMatch, IfNoneMatch)
        body = content_of(Body)
        stored = Object(
            body, f'"{digest(body).hex()}"', self._now(), dict(Metadata or {}), ContentType
        )
        objects[Key] = stored
        return {"ETag": stored.etag, "ChecksumCRC32": crc32(body), "ChecksumType": "FULL_OBJECT"}

    @operation
    def get_object(self, *, Bucket: str, Key: str) -> Answer:
        found = self._object(Bucket, Key)
        return {**found.head(), "Body": StreamingBody(BytesIO(found.body), len(found.body))}

    @operation
    def head_object(self, *, Bucket: str, Key: str) -> Answer:
        # A response to HEAD has no body, so botocore knows its status alone.
        return known(self._bucket(Bucket).objects, Key, "404", "Not Found", 404).head()

    @operation
    def delete_object(self, *, Bucket: str, Key: str) -> Answer:
        self._bucket(Bucket).objects.pop(Key, None)
        return {}

    @operation
    def delete_objects(self, *, Bucket: str, Delete: Mapping[str, Any]) -> Answer:
        """A missing key counts as deleted."""
        if not 1 <= len(Delete["Objects"]) <= _MAX_KEYS:
            raise RefusedError("MalformedXML", "The XML you provided was not well-formed")
        objects = self._bucket(Bucket).objects
        keys = [each["Key"] for each in Delete["Objects"]]
        for key in keys:
            objects.pop(key, None)
        return {} if Delete.get("Quiet") else {"Deleted": [{"Key": key} for key in keys]}

    @operation
    def list_objects_v2(
        self,
        *,
        Bucket: str,
        Prefix: str = "",
        Delimiter: str = "",
        MaxKeys: int = _MAX_KEYS,
        StartAfter: str = "",
        ContinuationToken: str | None = None,
    ) -> Answer:
        objects = self._bucket(Bucket).objects
        keys = objects.listed(Prefix, ContinuationToken or StartAfter)
        if Delimiter:
            keys = _folders(keys, Prefix, Delimiter)
        page = list(islice(keys, min(MaxKeys, self.page_size)))
        answer: Answer = {"KeyCount": len(page), "IsTruncated": next(keys, None) is not None}
        if page and Delimiter:
            answer["CommonPrefixes"] = [{"Prefix": folder} for folder in page]
        elif page:  # an empty listing has no Contents
            answer["Contents"] = [
                {
                    "Key": key,
                    "Size": len(objects[key].body),
                    "ETag": objects[key].etag,
                    "LastModified": objects[key].modified_at,
                }
                for key in page
            ]
        if answer["IsTruncated"]:
            answer["NextContinuationToken"] = page[-1] + (_LAST if Delimiter else "")
        return answer

    @operation
    def create_multipart_upload(
        self,
        *,
        Bucket: str,
        Key: str,
        ContentType: str = "binary/octet-stream",
        Metadata: Mapping[str, str] | None = None,
        ChecksumAlgorithm: str | None = None,
    ) -> Answer:
        if ChecksumAlgorithm not in (None, "CRC32"):
            raise NotImplementedError(f"this fake computes no {ChecksumAlgorithm}")
        upload = Upload(
            f"upload-{next(self._ids):08d}",
            Key,
            self._now(),
            dict(Metadata or {}),
            ContentType,
            ChecksumAlgorithm is not None,
        )
        self._bucket(Bucket).uploads[upload.id] = upload
        return {"Bucket": Bucket, "Key": Key, "UploadId": upload.id}

    @operation
    def upload_part(
        self,
        *,
        Bucket: str,
        Key: str,
        UploadId: str,
        PartNumber: int,
        Body: Any = b"",
        ChecksumAlgorithm: str | None = None,
    ) -> Answer:
        del ChecksumAlgorithm  # botocore sends a CRC32 in any case
        return self._upload(Bucket, Key, UploadId).add(PartNumber, content_of(Body))

    @operation
    def upload_part_copy(
        self,
        *,
        Bucket: str,
        Key: str,
        UploadId: str,
        PartNumber: int,
        CopySource: Mapping[str, str],
        CopySourceRange: str,
    ) -> Answer:
        upload = self._upload(Bucket, Key, UploadId)
        source = self._object(CopySource["Bucket"], CopySource["Key"])
        first, last = map(int, CopySourceRange.removeprefix("bytes=").split("-"))
        if not first <= last < len(source.body):
            raise RefusedError("InvalidRange", "The requested range is not satisfiable", status=416)
        return {"CopyPartResult": upload.add(PartNumber, source.body[first : last + 1])}

    @operation
    def complete_multipart_upload(
        self,
        *,
        Bucket: str,
        Key: str,
        UploadId: str,
        MultipartUpload: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The object appears, and the upload ends; `completion` says when.

        S3 goes on when the caller is gone.
        """
        bucket = self._bucket(Bucket)
        if UploadId in bucket.completed and self.repeats_answers():
            return bucket.completed[UploadId]
        upload = self._upload(Bucket, Key, UploadId)
        if MultipartUpload is None:
            raise RefusedError("InvalidRequest", "You must specify at least one part")
        if upload.completing is None:
            body, etag = upload.completed(MultipartUpload.get("Parts", []))
            answer = {"Bucket": Bucket, "Key": Key, "ETag": etag}
            how = self.completion(Key)
            if not how.takes_s:
                bucket.complete(upload, body, answer, self._now())
                return answer
            until = self._now() + timedelta(seconds=how.takes_s)
            upload.completing = Completing(how, until, body, answer)
        elif upload.completing.how.meanwhile == "gone":
            raise _no_such_upload()
        elif upload.completing.how.meanwhile == "repeats":
            return upload.completing.answer
        self.sleep((upload.completing.until - self._now()).total_seconds())
        bucket.catch_up(self._now())
        if UploadId in bucket.completed:
            return bucket.completed[UploadId]
        if UploadId in bucket.uploads:  # inside a response that began with the status 200
            raise RefusedError("InternalError", "We encountered an internal error.", status=500)
        raise _no_such_upload()

    @operation
    def abort_multipart_upload(self, *, Bucket: str, Key: str, UploadId: str) -> Answer:
        upload = self._upload(Bucket, Key, UploadId)
        if upload.is_hidden:
            raise _no_such_upload()
        del self._bucket(Bucket).uploads[UploadId]
        return {}

    @operation
    def list_multipart_uploads(self, *, Bucket: str, Prefix: str = "") -> Answer:
        """On one page: tests alone ask for them."""
        found = [
            {"Key": each.key, "UploadId": each.id, "Initiated": each.started_at}
            for each in self._bucket(Bucket).uploads.values()
            if each.key.startswith(Prefix) and not each.is_hidden
        ]
        return {"Uploads": found} if found else {}

    def _bucket(self, name: str) -> Contents:
        found = known(
            self.buckets, name, "NoSuchBucket", "The specified bucket does not exist", 404
        )
        found.catch_up(self._now())
        return found

    def _object(self, bucket: str, key: str) -> Object:
        return known(self._bucket(bucket).objects, key, *_NO_SUCH_KEY)

    def _upload(self, bucket: str, key: str, upload_id: str) -> Upload:
        found = self._bucket(bucket).uploads.get(upload_id)
        if found is None or found.key != key:
            raise _no_such_upload()
        return found


def _folders(keys: Iterator[str], prefix: str, delimiter: str) -> Iterator[str]:
    """What is up to the next delimiter, where each key has one."""
    return (folder for folder, _ in groupby(_folder_of(key, prefix, delimiter) for key in keys))


def _folder_of(key: str, prefix: str, delimiter: str) -> str:
    end = key.find(delimiter, len(prefix))
    if end < 0:
        raise NotImplementedError(f"{key} is in no folder below {prefix}")
    return key[: end + len(delimiter)]


def _no_such_upload() -> RefusedError:
    return RefusedError(
        "NoSuchUpload",
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have"
        " been aborted or completed.",
        status=404,
    )


def _check_condition(found: Object | None, if_match: str | None, if_none_match: str | None) -> None:
    both = if_match is not None and if_none_match is not None
    if both or if_none_match not in (None, "*") or if_match == "*":
        raise RefusedError(
            "NotImplemented",
            "A header you provided implies functionality that is not implemented",
            status=501,
        )
    if if_match is not None and found is None:
        raise RefusedError(*_NO_SUCH_KEY[:2], status=404)
    if (if_none_match is not None and found is not None) or (
        if_match is not None and found is not None and found.etag.strip('"') != if_match.strip('"')
    ):
        raise RefusedError(
            "PreconditionFailed",
            "At least one of the pre-conditions you specified did not hold",
            status=412,
        )
