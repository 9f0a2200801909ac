"""Message bodies, and what jobs emitted, beside the lease: a body may be 1 MiB, an item 400 KiB, and a progress write should cost one unit."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from longhaul.domain.follow_ons import Emitted
from longhaul.domain.message import MessageContent

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class S3Requests:
    """`ports.RequestStore` in the data bucket."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, ref: str, request: MessageContent) -> None:
        self._put(ref, asdict(request))

    def get(self, ref: str) -> MessageContent:
        return MessageContent(**self._get(ref))

    def put_emitted(self, ref: str, emitted: Emitted) -> None:
        self._put(ref, emitted)

    def get_emitted(self, ref: str) -> Emitted:
        emitted: Emitted = self._get(ref)
        return emitted

    def _put(self, ref: str, document: object) -> None:
        self._client.put_object(
            Bucket=self._bucket, Key=ref, Body=json.dumps(document).encode(), ContentType="application/json"
        )

    def _get(self, ref: str) -> Any:  # noqa: ANN401 - what JSON holds
        return json.loads(self._client.get_object(Bucket=self._bucket, Key=ref)["Body"].read())
