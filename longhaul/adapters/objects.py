"""Objects: reading what others can write, whose size is looked at first, and deleting many."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from longhaul.domain.errors import NotDeletedError
from longhaul.domain.footprint import is_readable

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
