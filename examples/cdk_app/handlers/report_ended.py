"""Keeps what became of a report: EventBridge's event when its job has ended (docs/events.md)."""

# ruff: noqa: INP001 - Lambda imports the file by itself

import json
import os
from typing import Any

import boto3


def handler(event: dict[str, Any], _: object) -> None:
    ended = event["detail"]
    # The same event may come twice: the same key holds the same then.
    boto3.client("s3").put_object(
        Bucket=os.environ["REPORTS_BUCKET"],
        Key=f"ended/{ended['job_id']}.json",
        Body=json.dumps({name: ended[name] for name in ("outcome", "output", "reason")}),
    )
