"""Content of objects that others can write: its size is looked at before it is read."""

from typing import TYPE_CHECKING

from longhaul.domain.footprint import is_readable

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef


def content_of(answer: "GetObjectOutputTypeDef", most: int) -> bytes | None:
    """The object's content; None where it has more than `most` bytes."""
    with answer["Body"] as body:
        return body.read() if answer["ContentLength"] <= most else None


def json_of(answer: "GetObjectOutputTypeDef", most: int) -> bytes | None:
    """The object's content, to be parsed as JSON; None where that would take too much memory."""
    body = content_of(answer, most)
    return body if body is not None and is_readable(body) else None
