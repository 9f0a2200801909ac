"""A message is replaced by a copy before SQS gives up on it, and neither the job nor the message is lost or doubled."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from functions.dispatcher import lambda_handler as dispatcher
from functions.sweeper import lambda_handler as sweeper
from longhaul.domain.lease import State
from tests.events import event
from tests.handlers.conftest import Context, Stack


def worn_out(case: str) -> dict[str, Any]:
    batch = event("dispatcher", case)
    batch["Records"][0]["attributes"]["ApproximateReceiveCount"] = "900"
    return batch


def kept(batch: dict[str, Any], context: Context) -> list[str]:
    return [each["itemIdentifier"] for each in dispatcher(batch, context)["batchItemFailures"]]


def received(stack: Stack, template: dict[str, Any]) -> dict[str, Any]:
    """The one message of the jobs queue, as the mapping would hand it over."""
    (message,) = stack.sqs.receive_message(
        QueueUrl=stack.jobs_url, MessageAttributeNames=["All"], AttributeNames=["All"], VisibilityTimeout=0
    )["Messages"]
    record = dict(template["Records"][0])
    record |= {"messageId": message["MessageId"], "receiptHandle": message["ReceiptHandle"], "body": message["Body"]}
    record["attributes"] = {**record["attributes"], "ApproximateReceiveCount": "1"}
    record["messageAttributes"] = {
        name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
        for name, value in message["MessageAttributes"].items()
    }
    return {"Records": [record]}


def test_a_running_jobs_message_is_renewed_and_the_copy_is_adopted(stack: Stack, context: Context) -> None:
    kept(event("dispatcher", "new-job"), context)
    batch = worn_out("redelivery")
    assert kept(batch, context) == []  # may go: a copy stands for it
    copy = received(stack, batch)
    copy_id = copy["Records"][0]["messageId"]
    assert kept(copy, context) == [copy_id]
    row = stack.row()
    assert (row.attempt, row.message_id, row.receive_count) == (1, copy_id, 1)
    assert row.former_message_ids == (batch["Records"][0]["messageId"],)
    assert len(stack.executions()) == 1


def test_the_message_that_was_renewed_is_a_duplicate_should_it_come_again(stack: Stack, context: Context) -> None:
    kept(event("dispatcher", "new-job"), context)
    batch = worn_out("redelivery")
    kept(batch, context)
    kept(received(stack, batch), context)
    assert kept(event("dispatcher", "redelivery"), context) == []
    assert len(stack.executions()) == 1


def test_a_waiting_jobs_message_is_renewed_with_its_key_and_first_sent_time(stack: Stack, context: Context) -> None:
    slots = str(stack.settings.stages[0].slots)
    stack.parts.leases._client.put_item(
        TableName=stack.settings.leases_table,
        Item={"key": {"S": "slots#main"}, "item": {"S": "slots"}, "running": {"N": slots}},
    )
    batch = worn_out("no-job-id")
    first_id = batch["Records"][0]["messageId"]
    assert kept(batch, context) == []
    copy = received(stack, batch)
    attributes = copy["Records"][0]["messageAttributes"]
    assert {name: value["stringValue"] for name, value in attributes.items()} == {
        "job_id": first_id,
        "renews": first_id,
        "first_sent": "4070908800000",
    }
    stack.parts.leases._client.delete_item(
        TableName=stack.settings.leases_table, Key={"key": {"S": "slots#main"}, "item": {"S": "slots"}}
    )
    kept(copy, context)
    assert stack.row(first_id).state is State.RUNNING  # under the key of the first message


def test_a_copy_of_an_ended_jobs_message_is_deleted(stack: Stack, context: Context) -> None:
    kept(event("dispatcher", "new-job"), context)
    batch = worn_out("redelivery")
    kept(batch, context)
    row = stack.row()
    stack.parts.leases.settle(row, replace(row, state=State.SUCCEEDED, settled_attempt=1))
    assert kept(received(stack, batch), context) == []


def test_a_released_job_whose_message_has_vanished_is_sent_anew_once(stack: Stack, context: Context) -> None:
    lease = stack.claim(message_id="00000001-0000-4000-8000-000000000000", stage="main")
    stack.sqs.purge_queue(QueueUrl=stack.jobs_url)
    stack.parts.requests.put(lease.request_ref, stack.content("new-job"))
    long_ago = stack.parts.clock.now() - timedelta(hours=7)
    stack.parts.leases.settle(lease, replace(lease, state=State.RELEASED, settled_attempt=1, retry_at=long_ago))
    assert sweeper(event("sweeper", "schedule"), context)["renewed"] == 1
    assert sweeper(event("sweeper", "schedule"), context)["renewed"] == 0
    copy = received(stack, event("dispatcher", "new-job"))
    assert kept(copy, context) == [copy["Records"][0]["messageId"]]
    assert (stack.row().state, stack.row().attempt) == (State.RUNNING, 2)
