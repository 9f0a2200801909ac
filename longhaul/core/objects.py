"""Objects: reading what others can write, whose size is looked at first, and deleting many.

Functions have 1 GB, and read what tasks write. A parser makes a tree of a text before any model
looks at it: "{}," takes three bytes, and hundreds in the tree.
"""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from longhaul.core.errors import NotDeletedError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef, ObjectIdentifierTypeDef

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
