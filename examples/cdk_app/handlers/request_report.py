"""Sends a job: `{"report": "2013-01", "query": "SELECT …"}`."""

# ruff: noqa: INP001 - Lambda imports the file by itself

import json
import os
from typing import Any

import boto3


def handler(event: dict[str, Any], _: object) -> None:
    report = event["report"]
    request = {
        "job": "sql",
        # The same report asked for twice is made once.
        "job_id": report,
        "output": f"s3://{os.environ['DATA_BUCKET']}/reports/{report}/",
        "params": {"query": event["query"], "format": "json"},
    }
    boto3.client("sqs").send_message(
        QueueUrl=os.environ["QUEUE_URL"], MessageBody=json.dumps(request)
    )
