"""A deploy or a rollback while jobs run: rows, payloads and results of other versions.

An older version's row lacks every optional attribute. A newer version's row has attributes that
this version does not know.
"""

import json
from dataclasses import MISSING, fields
from datetime import timedelta
from typing import Any

import pytest

from functions import dispatcher, heartbeat, settle, sweeper
from longhaul.adapters.dynamodb.item import attempt_key
from longhaul.adapters.dynamodb.slots import slots_key
from longhaul.domain.lease import Lease, State
from tests.builders import changed
from tests.events import event
from tests.handlers.conftest import Context, Stack, forget_runtimes

KEY = {"key": {"S": "main#flights-2013-01"}, "item": {"S": "lease"}}
OPTIONAL = {
    field.name
    for field in fields(Lease)
    if field.default is not MISSING or field.default_factory is not MISSING
}
# The optional attributes that the first version wrote at a claim. All others are newer, or are
# written later in a job's life.
KNOWN_FROM_THE_START = {
    "receipt_handle",
    "receive_count",
    "received_at",
    "first_sent_at",
    "lease_expires_at",
}
FUTURE = {"colour": {"S": "green"}, "weights": {"M": {"a": {"N": "1"}}}}
FAILED = {**event("settle", "exit-1")}


def item(stack: Stack) -> dict[str, Any]:
    found: dict[str, Any] = stack.aws.dynamodb.get_item(
        TableName=stack.settings.leases_table, Key=KEY
    )["Item"]
    return found


def rewrite(stack: Stack, changed: dict[str, Any]) -> None:
    stack.aws.dynamodb.put_item(TableName=stack.settings.leases_table, Item=changed)


@pytest.fixture(params=["of an older version", "of a newer version"])
def row(request: pytest.FixtureRequest, stack: Stack) -> str:
    """Claim a job and rewrite its row as another version would have written it."""
    stack.claim(attempt=1)
    found = item(stack)
    if request.param == "of a newer version":
        rewrite(stack, found | FUTURE)
    else:
        execution = json.loads(found["execution_input"]["S"])
        execution.pop("job", None)
        kept = {
            name: value
            for name, value in found.items()
            if name not in OPTIONAL - KNOWN_FROM_THE_START
        }
        rewrite(stack, kept | {"execution_input": {"S": json.dumps(execution)}})
    forget_runtimes()
    return str(request.param)


def test_job_of_another_version_beats(row: str, stack: Stack, context: Context) -> None:
    answer = heartbeat.lambda_handler(event("heartbeat", "first-beat"), context)
    assert (answer["next"], stack.row().attempt.beats) == ("wait", 1)
    assert set(FUTURE).isdisjoint(item(stack)) is (row == "of an older version"), (
        "unknown attributes stay"
    )


def test_older_beats_stay_counted_and_new_ones_have_times(
    row: str, stack: Stack, context: Context
) -> None:
    rewrite(stack, item(stack) | {"beats": {"N": "7"}})
    heartbeat.lambda_handler(event("heartbeat", "first-beat"), context)
    after = stack.row()
    age_s = int((stack.parts.clock.now() - after.attempt.claimed_at).total_seconds())
    assert (after.attempt.beats, after.attempt.beat_ages_s) == (8, (age_s,)), row
    settle.lambda_handler(FAILED, context)
    (attempt,) = stack.parts.leases.history([stack.row()])[after.key]
    assert (attempt.attempt.beats, attempt.attempt.beat_ages_s) == (8, (age_s,))


def test_history_item_of_another_version_is_read(stack: Stack, context: Context) -> None:
    stack.claim(attempt=1)
    heartbeat.lambda_handler(event("heartbeat", "first-beat"), context)
    settle.lambda_handler(FAILED, context)
    row = stack.row()
    (known,) = stack.parts.leases.history([row])[row.key]
    key = attempt_key(row.key, 1)
    kept = stack.aws.dynamodb.get_item(TableName=stack.settings.leases_table, Key=key)["Item"]
    assert kept["beat_ages_s"]
    rewrite(stack, {name: value for name, value in kept.items() if name != "beat_ages_s"} | FUTURE)
    assert stack.parts.leases.history([row])[row.key] == [changed(known, beat_ages_s=())]


def test_job_of_another_version_is_settled_as_released(
    row: str, stack: Stack, context: Context
) -> None:
    assert settle.lambda_handler(FAILED, context)["outcome"] == "RELEASED"
    assert (stack.row().state, stack.row().failures, stack.free_slots()) == (
        State.RELEASED,
        1,
        stack.settings.stages[0].slots,
    )
    assert set(FUTURE).isdisjoint(item(stack)) is (row == "of an older version")


def test_message_of_a_job_of_another_version_is_adopted(
    row: str, stack: Stack, context: Context
) -> None:
    stack.sfn.start_execution(
        stateMachineArn=stack.settings.state_machine_arn,
        name=stack.row().id.execution_name,
        input=item(stack)["execution_input"]["S"],
    )
    stack.parts.clock.sleep(121)
    (received,) = stack.sqs.receive_message(
        QueueUrl=stack.jobs_url, MessageSystemAttributeNames=["All"], VisibilityTimeout=120
    )["Messages"]
    record = event("dispatcher", "redelivery")["Records"][0] | {
        "messageId": received["MessageId"],
        "receiptHandle": received["ReceiptHandle"],
        "attributes": received["Attributes"],
    }
    record["body"] = json.dumps(json.loads(event("dispatcher", "new-job")["Records"][0]["body"]))
    answer = dispatcher.lambda_handler({"Records": [record]}, context)
    assert [each["itemIdentifier"] for each in answer["batchItemFailures"]] == [
        received["MessageId"]
    ]
    assert len(stack.executions()) == 1, "the running execution continues"
    assert row


def test_sweep_starts_a_job_of_another_version(row: str, stack: Stack, context: Context) -> None:
    """An overdue lease without an execution is started with exactly the input in its row."""
    before = item(stack)["execution_input"]["S"]
    stack.parts.clock.sleep(timedelta(hours=1).total_seconds())
    sweeper.lambda_handler(event("sweeper", "schedule"), context)
    assert stack.executions() == [before], row


def test_slots_item_of_another_version_keeps_counting(stack: Stack, context: Context) -> None:
    key = slots_key("main")
    stack.claim(attempt=1)
    table = stack.settings.leases_table
    stack.aws.dynamodb.put_item(TableName=table, Item=key | {"running": {"N": "1"}} | FUTURE)
    settle.lambda_handler(FAILED, context)
    assert (
        stack.aws.dynamodb.get_item(TableName=table, Key=key)["Item"]
        == key | {"running": {"N": "0"}} | FUTURE
    )


def test_results_have_the_keys_that_running_executions_read(stack: Stack, context: Context) -> None:
    """An execution keeps the definition it started with. Its result selectors name these keys."""
    stack.claim(attempt=1)
    assert {"next", "wait_s", "cause"} <= set(
        heartbeat.lambda_handler(event("heartbeat", "first-beat"), context)
    )
    assert {"outcome"} <= set(settle.lambda_handler(FAILED, context))
