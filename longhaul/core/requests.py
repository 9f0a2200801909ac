"""Requests, and what jobs emitted, as objects beside the leases.

A body may have 1 MiB, an item 400 KiB, and a progress write should cost one unit.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of
from longhaul.core.errors import TooLargeError
from longhaul.core.leads import Emitted
from longhaul.core.message import Message
from longhaul.core.objects import MAX_DECODED_BYTES, json_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef


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
