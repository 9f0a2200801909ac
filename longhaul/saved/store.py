"""What jobs have stored for their next attempt, as objects of the data bucket."""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError
from pydantic import ValidationError

from longhaul.core.aws_errors import code_of
from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId
from longhaul.core.objects import (
    MAX_BYTES,
    delete_keys,
    is_readable,
    json_of,
    objects_below,
)
from longhaul.saved.record import PREFIX, Record, attempt_of, job_prefix, key_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

logger = logging.getLogger(__name__)


class S3SavedWork:
    """Implements `keeper.SavedStore`; the runner reads and writes records through it, too."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._s3 = client
        self._bucket = bucket

    def jobs(self) -> Iterator[str]:
        for page in self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=PREFIX, Delimiter="/"
        ):
            for folder in page.get("CommonPrefixes", []):
                if key := key_of(folder["Prefix"]):
                    yield key

    def remove(self, until: AttemptId) -> None:
        """As the port says.

        Raises:
            NotDeletedError: S3 has kept some, and said so in a success.
        """
        found = objects_below(self._s3, self._bucket, job_prefix(until.key))
        self.delete([item["Key"] for item in found if _is_of(item["Key"], until)])

    def delete(self, names: Sequence[str]) -> None:
        """Delete these objects; one that is not there is no error.

        Raises:
            NotDeletedError: S3 has kept some, and said so in a success.
        """
        delete_keys(self._s3, self._bucket, names)

    def load(self, ref: str) -> Record | None:
        """The record; None when it is gone, or has a form that this version does not read."""
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=ref)
        except ClientError as error:
            if code_of(error) != "NoSuchKey":
                raise
            return None
        # One that is too large to be read has no form that is known, as an empty one has none.
        body = json_of(answer, MAX_BYTES) or b""
        try:
            return Record.model_validate_json(body, extra="ignore")
        except ValidationError:
            logger.warning("%s has a form that this version does not read", ref)
            return None

    def put(self, ref: str, record: Record) -> None:
        """Write a record under a name that none has.

        The SDK repeats a write whose answer was lost: one that finds itself there is done.

        Raises:
            PermanentJobError: `load` would not read it.
        """
        body = record.model_dump_json(exclude_defaults=True).encode()
        if len(body) > MAX_BYTES or not is_readable(body):
            raise PermanentJobError(
                "what the job has stored is too many files for one record: write fewer and larger"
                " ones (coalesce)"
            )
        try:
            self._s3.put_object(
                Bucket=self._bucket,
                Key=ref,
                Body=body,
                ContentType="application/json",
                IfNoneMatch="*",
            )
        except ClientError as error:
            if code_of(error) != "PreconditionFailed" or self.load(ref) != record:
                raise


def _is_of(name: str, until: AttemptId) -> bool:
    """Whether the attempt, or one before it, stored this. What has no attempt is of none."""
    stored_by = attempt_of(until.key, name)
    return stored_by is None or stored_by <= until
