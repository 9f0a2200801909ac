"""Objects: requests beside their rows, reading what others can write, and deleting many.

A body may have 1 MiB, an item 400 KiB, and a progress write should cost one unit.

Functions have 1 GB, and read what tasks write. A parser makes a tree of a text before any model
looks at it: "{}," takes three bytes, and hundreds in the tree.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of
from longhaul.core.descent import Emitted
from longhaul.core.errors import NotDeletedError, TooLargeError
from longhaul.core.message import Message

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        GetObjectOutputTypeDef,
        ObjectIdentifierTypeDef,
        ObjectTypeDef,
    )


_DELETE_BATCH: Final = 1_000  # DeleteObjects' limit

logger = logging.getLogger(__name__)


def content_of(answer: "GetObjectOutputTypeDef", most: int) -> bytes | None:
    """The object's content; None where it has more than `most` bytes."""
    with answer["Body"] as body:
        return body.read() if answer["ContentLength"] <= most else None


def json_of(answer: "GetObjectOutputTypeDef", most: int) -> bytes | None:
    """The object's content, to be parsed as JSON; None where that would take too much memory."""
    body = content_of(answer, most)
    return body if body is not None and is_readable(body) else None


def objects_below(client: "S3Client", bucket: str, prefix: str) -> "Iterator[ObjectTypeDef]":
    """What S3 lists of each object below a prefix, in the order of the keys."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from page.get("Contents", [])


def delete_keys(client: "S3Client", bucket: str, doomed: Sequence[str]) -> None:
    """Delete them all, or as many as S3 does; one that is not there is no error.

    Raises:
        NotDeletedError: some are still there. The answer is a success that names them.
    """
    refused: Counter[str] = Counter()
    for start in range(0, len(doomed), _DELETE_BATCH):
        keys: list[ObjectIdentifierTypeDef] = [
            {"Key": key} for key in doomed[start : start + _DELETE_BATCH]
        ]
        answer = client.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
        refused.update(failed.get("Code", "no code") for failed in answer.get("Errors", []))
    if refused:
        logger.warning("S3 did not delete all files: %s", dict(refused))
        raise NotDeletedError(f"{refused.total()} files were not deleted: {', '.join(refused)}")


MAX_BYTES: Final = 128 * 2**20
"""Longer than any manifest or list of ours: 100,000 files, each with the longest key of S3."""

MAX_DECODED_BYTES: Final = MAX_BYTES // 2
"""The same for Python's own parser, which also makes a text of the whole. No job emits more."""

MAX_FOOTPRINT: Final = 600 * 2**20
"""What fits into a function beside its code and the text."""

# Measured with pydantic's parser, which takes more than Python's. Of a list of 100,000 files with
# their uploads it is an estimate of 510 MiB, and the models take no more after it.
_PER_OBJECT: Final = 900
_PER_LIST: Final = 400
_PER_VALUE: Final = 60
# Python gives each character of a text as many bytes as its widest one takes: one wide character
# makes a text four times as long. First bytes of UTF-8, and how JSON escapes the same.
_WIDE: Final = (
    (4, re.compile(rb"[\xf0-\xff]|\\u[dD][89abAB]")),
    (2, re.compile(rb"[\xc4-\xef]|\\u")),
)


def footprint(text: bytes) -> int:
    """Bytes that it takes while models read it, at most: what stands within strings counts, too.

    That is the text itself, the parser's tree of it, and the models' own texts.
    """
    # Two looks that take a hundredth of the time of the patterns, and suffice for most texts.
    is_narrow = text.isascii() and b"\\u" not in text
    width = 1 if is_narrow else next((width for width, wide in _WIDE if wide.search(text)), 1)
    return (
        (2 + width) * len(text)
        + _PER_OBJECT * text.count(b"{")
        + _PER_LIST * text.count(b"[")
        + _PER_VALUE * text.count(b",")
    )


def is_readable(text: bytes) -> bool:
    """Whether a function can read a text of JSON: it was checked for `MAX_BYTES` before."""
    return footprint(text) <= MAX_FOOTPRINT


class S3Requests:
    """`ports.Requests` in the data bucket."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, ref: str, request: Message) -> None:
        self._put(ref, asdict(request))

    def get(self, ref: str) -> Message:
        return _message(self._get(ref))

    def get_stored(self, ref: str) -> Message | None:
        found = self._get_stored(ref)
        return None if found is None else _message(found)

    def put_emitted(self, ref: str, emitted: Emitted) -> None:
        self._put(ref, emitted)

    def get_emitted(self, ref: str) -> Emitted:
        emitted: Emitted = self._get(ref)
        return emitted

    def put_inputs(self, ref: str, inputs: Mapping[str, str]) -> None:
        self._put(ref, inputs)

    def get_inputs(self, ref: str) -> Mapping[str, str] | None:
        inputs: Mapping[str, str] | None = self._get_stored(ref)
        return inputs

    def _put(self, ref: str, document: object) -> None:
        self._client.put_object(
            Bucket=self._bucket,
            Key=ref,
            Body=json.dumps(document).encode(),
            ContentType="application/json",
        )

    def _get(self, ref: str) -> Any:  # noqa: ANN401 - what JSON holds
        return _parsed(ref, self._client.get_object(Bucket=self._bucket, Key=ref))

    def _get_stored(self, ref: str) -> Any:  # noqa: ANN401 - as above
        """None when nothing is stored there."""
        try:
            return self._get(ref)
        except ClientError as error:
            if code_of(error) != "NoSuchKey":
                raise
            return None


def _message(found: Mapping[str, Any]) -> Message:
    # After a rollback it may have fields that only the newer version knows.
    return Message(
        **{each.name: found[each.name] for each in fields(Message) if each.name in found}
    )


def _parsed(ref: str, answer: "GetObjectOutputTypeDef") -> Any:  # noqa: ANN401 - what JSON holds
    body = json_of(answer, MAX_DECODED_BYTES)
    if body is None:
        raise TooLargeError(f"{ref} is larger than a function can read")
    # As bytes it could be UTF-16 as well, whose width was not seen.
    return json.loads(body.decode())
