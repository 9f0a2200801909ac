"""Values that many tests need, each valid as it stands; a test changes what it is about."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from longhaul.domain.claim import new_run
from longhaul.domain.lease import Lease, Message, job_key, request_ref
from longhaul.domain.request import JobRequest
from longhaul.settings import LeaseSettings, PathPolicy, RuntimeSettings, Stage

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BUCKET = "longhaul-data"
QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/Longhaul-main-jobs"
DEAD_LETTER_QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/Longhaul-main-dead-letters"
BODY: dict[str, Any] = {
    "job": "flights_clean",
    "inputs": {"flights": f"s3://{BUCKET}/raw/2013-01.csv"},
    "output": f"s3://{BUCKET}/clean/2013-01/",
}


def stage(**changes: Any) -> Stage:
    return Stage(**{"queue_url": QUEUE_URL, "dead_letter_queue_url": DEAD_LETTER_QUEUE_URL, **changes})


def settings(**changes: Any) -> RuntimeSettings:
    values: dict[str, Any] = {
        "leases_table": "leases",
        "stages": (stage(),),
        "paths": PathPolicy(data_bucket=BUCKET, input_buckets=("landing",)),
        "jobs": ("daily_delays", "flights_clean", "sql"),
        "state_machine_arn": "arn:aws:states:us-east-1:123456789012:stateMachine:Longhaul",
        "cluster_arn": "arn:aws:ecs:us-east-1:123456789012:cluster/Longhaul",
        "job_log_group": "/longhaul/jobs",
    }
    return RuntimeSettings(**{**values, **changes})


def body(**changes: Any) -> str:
    return json.dumps({**BODY, **changes})


def message(job_id: str = "january", message_id: str = "m-1", **changes: Any) -> Message:
    key = job_key("main", job_id)
    base = Message(
        message_id=message_id,
        receipt_handle=f"handle-{message_id}-1",
        receive_count=1,
        received_at=NOW,
        sent_at=NOW - timedelta(minutes=1),
        first_sent_at=NOW - timedelta(minutes=1),
        request=JobRequest.model_validate(BODY),
        key=key,
        request_ref=request_ref(key, message_id),
    )
    return replace(base, **changes)


def running(**changes: Any) -> Lease:
    """A lease as the first claim leaves it, at NOW."""
    return replace(new_run(None, message(), stage(), LeaseSettings(), NOW), **changes)
