"""A copy replaces a message before SQS drops the message.

Neither the job nor the message is lost or doubled.
"""

from typing import Any

from functions.dispatcher import lambda_handler as dispatcher
from longhaul.core.lease import State
from tests.events import event
from tests.handlers.stack import Context, Stack, out


def worn_out(case: str) -> dict[str, Any]:
    batch = event("dispatcher", case)
    batch["Records"][0]["attributes"]["ApproximateReceiveCount"] = "900"
    return batch


def kept(batch: dict[str, Any], context: Context) -> list[str]:
    return [each["itemIdentifier"] for each in dispatcher(batch, context)["batchItemFailures"]]


def received(stack: Stack, template: dict[str, Any]) -> dict[str, Any]:
    """The only message of the jobs queue, as the mapping passes it on."""
    (message,) = stack.sqs.receive_message(
        QueueUrl=stack.jobs_url,
        MessageAttributeNames=["All"],
        AttributeNames=["All"],
        VisibilityTimeout=0,
    )["Messages"]
    record = dict(template["Records"][0])
    record |= {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
    }
    record["attributes"] = {**record["attributes"], "ApproximateReceiveCount": "1"}
    record["messageAttributes"] = {
        name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
        for name, value in message["MessageAttributes"].items()
    }
    return {"Records": [record]}


def test_message_of_a_running_job_is_renewed_and_the_copy_is_adopted(
    stack: Stack, context: Context
) -> None:
    kept(event("dispatcher", "new-job"), context)
    before = stack.row()
    batch = worn_out("redelivery")
    assert kept(batch, context) == []  # deleted: a copy replaces it
    assert stack.row() == before
    copy = received(stack, batch)
    copy_id = copy["Records"][0]["messageId"]
    assert kept(copy, context) == [copy_id]
    row = stack.row()
    assert (row.attempt.number, row.receive.message_id, row.receive.receive_count) == (
        1,
        copy_id,
        1,
    )
    assert row.receive.renews == batch["Records"][0]["messageId"]
    assert len(stack.executions()) == 1


def test_a_message_that_could_not_be_renewed_is_not_adopted_and_comes_back_soon(
    stack: Stack, context: Context
) -> None:
    """The beats of a job hide an adopted message for half a day, and it may be too old by then."""
    kept(event("dispatcher", "new-job"), context)
    before = stack.row()
    batch = worn_out("redelivery")
    stack.aws.gate.around = out("SendMessage")
    assert kept(batch, context) == [batch["Records"][0]["messageId"]]
    assert stack.row() == before


def test_message_of_a_waiting_job_is_renewed_with_its_key_and_first_sent_time(
    stack: Stack, context: Context
) -> None:
    stack.take_slots()
    batch = worn_out("no-job-id")
    first_id = batch["Records"][0]["messageId"]
    assert kept(batch, context) == []
    copy = received(stack, batch)
    attributes = copy["Records"][0]["messageAttributes"]
    assert {name: value["stringValue"] for name, value in attributes.items()} == {
        "job_id": first_id,
        "longhaul_renews": first_id,
        "longhaul_first_sent": "2099-01-01T00:00:00+00:00",
    }
    stack.take_slots(all_=False)
    kept(copy, context)
    assert stack.row(first_id).state is State.RUNNING  # under the key of the first message
