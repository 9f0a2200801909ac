"""Valid values that many tests need. A test changes the field that it is about."""

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from longhaul.core.claim import new_run
from longhaul.core.errors import InvalidRequestError
from longhaul.core.history import AttemptRecord
from longhaul.core.lease import Attempt, CommittedOutput, Lease, Receive, job_key
from longhaul.core.message import JobMessage, Message
from longhaul.core.policy import parse_request
from longhaul.core.request import JobRequest
from longhaul.core.settings import LeaseSettings, PathPolicy, RuntimeSettings, Stage

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BUCKET = "longhaul-data"
QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/Longhaul-main-jobs"
DEAD_LETTER_QUEUE_URL = (
    "https://sqs.us-east-1.amazonaws.com/123456789012/Longhaul-main-dead-letters"
)
# A definition that Step Functions takes, for tests in which no execution runs.
OUTPUT = CommittedOutput(attempt=1, prefix="s3://longhaul-data/out/", files=2, size_bytes=10)
MACHINE = '{"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}'
BODY: dict[str, Any] = {
    "job": "flights_clean",
    "inputs": {"flights": f"s3://{BUCKET}/raw/2013-01.csv"},
    "output": f"s3://{BUCKET}/clean/2013-01/",
}


def stage(**changes: Any) -> Stage:
    return Stage(
        **{"queue_url": QUEUE_URL, "dead_letter_queue_url": DEAD_LETTER_QUEUE_URL, **changes}
    )


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


def problems_of(known: RuntimeSettings, **asked: Any) -> list[str]:
    """What the first stage refuses of a request for that."""
    try:
        parse_request(body(**asked), known, known.stages[0])
    except InvalidRequestError as error:
        return error.problems
    return []


def message(job_id: str = "january", message_id: str = "m-1", **changes: Any) -> JobMessage:
    key = job_key("main", job_id)
    base = JobMessage(
        message_id=message_id,
        receipt_handle=f"handle-{message_id}-1",
        receive_count=1,
        received_at=NOW,
        sent_at=NOW - timedelta(minutes=1),
        first_sent_at=NOW - timedelta(minutes=1),
        request=JobRequest.model_validate(BODY),
        key=key,
        content=Message(body(), {}),
    )
    return replace(base, **changes)


def running(**changes: Any) -> Lease:
    """The lease that the first claim writes, at NOW."""
    return changed(new_run(None, message(), stage(), LeaseSettings(), NOW), **changes)


def record(n: int = 1, **changes: Any) -> AttemptRecord:
    """Attempt `n` of the job of `running()`, claimed at NOW."""
    row = running()
    attempt = Attempt(number=n, claimed_at=NOW)
    base = AttemptRecord(row.key, row.stage, row.run, attempt, "small", "FARGATE")
    return changed(base, **changes)


_RECEIVE = {field.name for field in fields(Receive)}
_ATTEMPT = {field.name for field in fields(Attempt)}
Row = TypeVar("Row", Lease, AttemptRecord)
Value = TypeVar("Value")


def changed(row: Row, **changes: Any) -> Row:
    """The row with other values, given by their names in the table."""
    receive = {name: changes.pop(name) for name in _RECEIVE & changes.keys()}
    attempt = {name: changes.pop(name) for name in _ATTEMPT & changes.keys()}
    if isinstance(changes.get("attempt"), int):
        attempt["number"] = changes.pop("attempt")
    if isinstance(row, Lease) and receive:
        changes["receive"] = replace(row.receive, **receive)
    if attempt:
        changes["attempt"] = replace(row.attempt, **attempt)
    return replace(row, **changes)


def there(value: Value | None) -> Value:
    """The value, which must not be None."""
    assert value is not None
    return value
