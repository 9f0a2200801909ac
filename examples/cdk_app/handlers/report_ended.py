"""Keeps what became of a report: the event when its job has ended (docs/reference/events.md)."""

# ruff: noqa: INP001 - Lambda imports the file by itself

import json
import logging
import os
from typing import Any

import boto3

logger = logging.getLogger(__name__)


def handler(event: dict[str, Any], _: object) -> dict[str, Any]:
    failed = []
    for record in event["Records"]:
        try:
            _keep(json.loads(record["body"])["detail"])
        except Exception:  # the others of the batch are done; this one comes again
            logger.exception("not kept")
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}


def _keep(ended: dict[str, Any]) -> None:
    # The same event may come twice: the same key holds the same then.
    boto3.client("s3").put_object(
        Bucket=os.environ["REPORTS_BUCKET"],
        Key=f"ended/{ended['job_id']}.json",
        Body=json.dumps({name: ended[name] for name in ("outcome", "output", "reason")}),
    )
