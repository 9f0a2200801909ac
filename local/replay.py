"""One handler on one event, in a process of its own, with services in memory: nothing of it reaches an account, or lives on.

`python -m local.replay FUNCTION < event.json` is that process: it prints the outcome as JSON on stdout; the handler's log goes to stderr. What the event needs is made
first: a message that is held for each record, a running lease for the attempt that it names.
"""

import importlib
import json
import os
import sys
import traceback
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import boto3
from moto import mock_aws

from functions.wiring import Wiring
from infra.catalogue import catalogue
from local.synth import REPOSITORY
from longhaul.adapters.dynamodb_indexes import ENDED_INDEX, OPEN_INDEX, ROOT_INDEX
from longhaul.domain.claim import Claim, new_run
from longhaul.domain.lease import ExecutionInput, Lease, Message, request_ref
from longhaul.domain.message import MessageContent
from longhaul.domain.request import JobRequest
from longhaul.settings import VARIABLE, LeaseSettings, PathPolicy, RuntimeSettings, Stage

ACCOUNT, REGION = "123456789012", "us-east-1"
BUCKET = "longhaul-data"
"""As the files of `events/` name them."""

_BODY = {"job": "sql", "output": f"s3://{BUCKET}/replayed/"}
"""The request of a lease that the event does not tell."""


def run(function: str, event: dict[str, Any]) -> dict[str, Any]:
    """What the handler answers or raises, and how the services are afterwards."""
    with mock_aws():
        settings = _settings(_stage_of(event))
        _make(settings)
        os.environ[VARIABLE] = settings.model_dump_json()
        parts = Wiring(settings)
        keys = _prepare(parts, event)
        outcome: dict[str, Any] = {"answer": None, "error": None}
        try:
            handler = importlib.import_module(f"functions.{function}").lambda_handler
            outcome["answer"] = handler(event, _CONTEXT)
        except Exception as error:  # noqa: BLE001 - whatever the handler raises is the outcome
            traceback.print_exc()
            outcome["error"] = f"{type(error).__name__}: {error}"
        return outcome | _after(parts, keys)


_CONTEXT: Any = SimpleNamespace(
    function_name="replay",
    function_version="$LATEST",
    memory_limit_in_mb=512,
    invoked_function_arn=f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:replay",
    aws_request_id="00000000-0000-0000-0000-000000000000",
    tenant_id=None,
    get_remaining_time_in_millis=lambda: 60_000,
)


def _stage_of(event: dict[str, Any]) -> tuple[str, str]:
    """Name of the stage that the event is about, and of its jobs queue."""
    execution = _execution_of(event)
    if execution is not None:
        return execution.stage, f"Longhaul-{execution.stage}-jobs"
    records = event.get("Records") or [{}]
    queue = str(records[0].get("eventSourceARN", "")).rpartition(":")[2] or "Longhaul-main-jobs"
    return queue.removesuffix("-jobs").rpartition("-")[2] or "main", queue


def _settings(stage: tuple[str, str]) -> RuntimeSettings:
    name, queue = stage
    url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/"
    return RuntimeSettings(
        leases_table="leases",
        stages=(Stage(name=name, queue_url=url + queue, dead_letter_queue_url=f"{url}Longhaul-{name}-dead-letters"),),
        paths=PathPolicy(data_bucket=BUCKET),
        jobs=catalogue(REPOSITORY),
        # Nobody frees a slot here.
        lease=LeaseSettings(slot_wait_s=0),
        state_machine_arn=f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:Longhaul",
        cluster_arn=f"arn:aws:ecs:{REGION}:{ACCOUNT}:cluster/Longhaul",
        job_log_group="/longhaul/jobs",
    )


def _make(settings: RuntimeSettings) -> None:
    """The stack's resources, as far as handlers use them."""
    (stage,) = settings.stages
    sqs = boto3.client("sqs")
    for url in (stage.queue_url, stage.dead_letter_queue_url):
        sqs.create_queue(QueueName=url.rpartition("/")[2], Attributes={"VisibilityTimeout": "120"})
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    boto3.client("ecs").create_cluster(clusterName="Longhaul")
    boto3.client("stepfunctions").create_state_machine(
        name="Longhaul",
        definition=json.dumps({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}),
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/any",
    )
    names = {"key": "S", "item": "S", "open": "S", "root": "S", "ended": "S", "settled_at": "N"}
    boto3.client("dynamodb").create_table(
        TableName=settings.leases_table,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in names.items()],  # type: ignore[typeddict-item]
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}, {"AttributeName": "item", "KeyType": "RANGE"}],
        GlobalSecondaryIndexes=[
            _index(OPEN_INDEX, "open"),
            _index(ROOT_INDEX, "root"),
            _index(ENDED_INDEX, "ended", "settled_at"),
        ],
        BillingMode="PAY_PER_REQUEST",
    )


def _index(name: str, *keys: str) -> Any:  # noqa: ANN401 - an argument of CreateTable
    schema = [{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)]
    return {"IndexName": name, "KeySchema": schema, "Projection": {"ProjectionType": "KEYS_ONLY"}}


def _prepare(parts: Wiring, event: dict[str, Any]) -> list[str]:
    """What the event takes for granted. Answers the keys of the leases that were made."""
    for record in event.get("Records") or []:
        if isinstance(record, dict) and isinstance(record.get("body"), str):
            record["receiptHandle"] = _held_message(parts, record["body"])
    execution = _execution_of(event)
    if execution is None:
        return []
    lease = _running(parts, execution)
    parts.requests.put(lease.request_ref, MessageContent(json.dumps({**_BODY, "job_id": execution.job_id}), {}))
    parts.leases.claim(Claim(lease, replaces=None), parts.settings.stages[0])
    return [lease.key]


def _held_message(parts: Wiring, body: str) -> str:
    """The receipt handle of a message that was just received: the event's own holds none here."""
    sqs, url = boto3.client("sqs"), parts.settings.stages[0].queue_url
    sent = sqs.send_message(QueueUrl=url, MessageBody=body or "-")["MessageId"]
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    return next(message["ReceiptHandle"] for message in received if message["MessageId"] == sent)


def _execution_of(event: dict[str, Any]) -> ExecutionInput | None:
    """The attempt that the event is about: its own fields, or the input of the execution that ended."""
    fields = event
    if isinstance(event.get("detail"), dict) and "input" in event["detail"]:
        fields = json.loads(event["detail"]["input"])
    try:
        return ExecutionInput.model_validate(fields)
    except ValueError:
        return None


def _running(parts: Wiring, execution: ExecutionInput) -> Lease:
    """A lease under which that attempt runs for a minute, with progress a moment ago."""
    now, (stage,) = parts.clock.now(), parts.settings.stages
    message = Message(
        message_id="replayed",
        receipt_handle=_held_message(parts, json.dumps(_BODY)),
        receive_count=1,
        received_at=now,
        sent_at=now,
        first_sent_at=now,
        request=JobRequest.model_validate(_BODY),
        key=execution.key,
        request_ref=request_ref(execution.key, "replayed"),
    )
    return replace(
        new_run(None, message, stage, parts.settings.lease, now - timedelta(seconds=60)),
        run=execution.run,
        attempt=execution.attempt,
        execution_input=execution.model_dump_json(),
        progress_at=now,
    )


def _after(parts: Wiring, keys: list[str]) -> dict[str, Any]:
    """The rows, and how many messages each queue holds."""
    (stage,) = parts.settings.stages
    found = [
        *keys,
        *(key for kind in ("RUNNING", "RELEASED", "OWED") for key in parts.leases.open_keys(stage.name, kind)),
    ]
    rows = parts.leases.load_many(found).values()
    return {
        "leases": [
            {
                "key": row.key,
                "state": row.state.value,
                "attempt": row.attempt,
                "failures": row.failures,
                "interruptions": row.interruptions,
                "class": row.last_class,
                "error": row.last_error,
                "owed": [owed.value for owed in row.owed],
            }
            for row in rows
        ],
        "dead_letters": _explanations(stage.dead_letter_queue_url),
    }


def _explanations(queue_url: str) -> list[Any]:
    answer = boto3.client("sqs").receive_message(
        QueueUrl=queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )
    return [json.loads(each["MessageAttributes"]["longhaul"]["StringValue"]) for each in answer.get("Messages", [])]


if __name__ == "__main__":
    results, sys.stdout = sys.stdout, sys.stderr  # the handlers' log goes to stdout, as Lambda wants it
    json.dump(run(sys.argv[1], json.load(sys.stdin)), results, default=str)
