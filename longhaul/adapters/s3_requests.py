"""Message bodies beside the lease: a body may be 1 MiB, an item 400 KiB, and a progress write should cost one unit."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from longhaul.domain.message import MessageContent

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class S3Requests:
    """`ports.RequestStore` in the data bucket."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, ref: str, request: MessageContent) -> None:
        body = json.dumps(asdict(request)).encode()
        self._client.put_object(Bucket=self._bucket, Key=ref, Body=body, ContentType="application/json")

    def get(self, ref: str) -> MessageContent:
        return MessageContent(**json.loads(self._client.get_object(Bucket=self._bucket, Key=ref)["Body"].read()))
