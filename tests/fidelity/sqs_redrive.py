"""Rules of SQS: dead letters and their way back."""

import json
from typing import Any

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import NOT_ASKED, Rules, recorded
from tests.fidelity.sqs import DAY_S, REAL_TIME, queue, received, send

REDRIVE = "sqs-configure-dead-letter-queue-redrive"
MOVE = "API_StartMessageMoveTask"
NO_MOVES = "moto has no move tasks. `longhaul rerun` needs none"
RULES = Rules()


def arn_of(sqs: Any, url: str) -> str:
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


def dead_letter_queue(aws: Aws) -> tuple[Any, str, str]:
    """SQS, a queue, and the queue `source` whose dead letters go there after a receive of 1 s."""
    sqs = aws.client("sqs")
    fortnight = {"MessageRetentionPeriod": str(14 * DAY_S)}
    dead = str(sqs.create_queue(QueueName="jobs", Attributes=fortnight)["QueueUrl"])
    policy = {"deadLetterTargetArn": arn_of(sqs, dead), "maxReceiveCount": 1}
    attributes = {"RedrivePolicy": json.dumps(policy), "VisibilityTimeout": "1"}
    source = sqs.create_queue(QueueName="source", Attributes=attributes)["QueueUrl"]
    return sqs, dead, str(source)


@RULES.add(
    "ok",
    recorded(
        "sqs/test_sqs_move_task.py::test_move_task_workflow_with_default_destination", "2024-04"
    ),
    embedded="500",
    why=NO_MOVES,
)
def redrive_of_a_dead_letter_queue(aws: Aws) -> str:
    sqs, dead, _ = dead_letter_queue(aws)
    return code_of(lambda: sqs.start_message_move_task(SourceArn=arn_of(sqs, dead)))


def dead_letter(aws: Aws, **sent: Any) -> tuple[str, dict[str, Any]]:
    """The id of a message that SQS moves after its only receive, and the dead letter."""
    sqs, dead, source = dead_letter_queue(aws)
    message_id = sqs.send_message(QueueUrl=source, MessageBody="job", **sent)["MessageId"]
    assert sqs.receive_message(QueueUrl=source)["Messages"]
    aws.clock.sleep(1.5)
    assert "Messages" not in sqs.receive_message(QueueUrl=source, WaitTimeSeconds=1)
    (message,) = sqs.receive_message(
        QueueUrl=dead,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["All"],
        WaitTimeSeconds=10,
    )["Messages"]
    return message_id, message


@RULES.add(
    "the same id, receive 2",
    recorded("sqs/test_sqs.py::test_dead_letter_queue_message_attributes", "2024-04"),
)
def receive_count_of_a_dead_letter(aws: Aws) -> str:
    sent, message = dead_letter(aws)
    kept = "the same id" if message["MessageId"] == sent else "another id"
    return f"{kept}, receive {message['Attributes']['ApproximateReceiveCount']}"


@RULES.add(
    "InvalidParameterValue",
    recorded("sqs/test_sqs_move_task.py::test_source_needs_redrive_policy", "2024-04"),
    embedded="500",
    why=NO_MOVES,
)
def redrive_of_a_queue_that_is_no_dead_letter_queue(aws: Aws) -> str:
    sqs, url = queue(aws)
    return code_of(lambda: sqs.start_message_move_task(SourceArn=arn_of(sqs, url)))


@RULES.add(
    "v, from source",
    recorded("sqs/test_sqs.py::test_dead_letter_queue_message_attributes", "2024-04"),
    embedded="v, from no queue",
    why="moto does not say it, and Longhaul does not read it",
)
def attributes_of_a_dead_letter(aws: Aws) -> str:
    kept = {"a": {"DataType": "String", "StringValue": "v"}}
    _, message = dead_letter(aws, MessageAttributes=kept)
    source = message["Attributes"].get("DeadLetterQueueSourceArn", "no queue").split(":")[-1]
    return f"{message['MessageAttributes']['a']['StringValue']}, from {source}"


def moved(aws: Aws, sqs: Any, dead: str, **destination: str) -> str:
    """The end of a move task, once it has ended."""
    arn = arn_of(sqs, dead)
    sqs.start_message_move_task(SourceArn=arn, **destination)
    for _ in range(100):
        (task,) = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
        if task["Status"] not in ("CREATED", "RUNNING"):
            break
        aws.clock.sleep(0.1)
    why = f" {task['FailureReason']}" if task.get("FailureReason") else ""
    return f"{task['Status']}{why}"


@RULES.add(
    "FAILED CouldNotDetermineMessageSource, job",
    MOVE,
    embedded=NOT_ASKED,
    why=NO_MOVES,
)
def redrive_of_a_message_that_was_sent_to_the_queue(aws: Aws) -> str:
    sqs, dead, _ = dead_letter_queue(aws)
    send(sqs, dead)
    return f"{moved(aws, sqs, dead)}, {received(sqs, dead)}"


@RULES.add(
    "COMPLETED, v, receive 1",
    REDRIVE,
    embedded=NOT_ASKED,
    why=NO_MOVES,
)
def redrive_of_a_dead_letter_to_its_source(aws: Aws) -> str:
    sqs, dead, source = dead_letter_queue(aws)
    text = {"a": {"DataType": "String", "StringValue": "v"}}
    send(sqs, source, MessageAttributes=text)
    received(sqs, source)
    aws.clock.sleep(1.5)
    received(sqs, source, WaitTimeSeconds=1)
    end = moved(aws, sqs, dead)
    (message,) = sqs.receive_message(
        QueueUrl=source,
        WaitTimeSeconds=10,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["All"],
    )["Messages"]
    kept = message["MessageAttributes"]["a"]["StringValue"]
    return f"{end}, {kept}, receive {message['Attributes']['ApproximateReceiveCount']}"


@RULES.add(
    "job, 14 days after it was sent no message",
    "sqs-dead-letter-queues",
    embedded=NOT_ASKED,
    why=REAL_TIME,
)
def age_of_a_dead_letter(aws: Aws) -> str:
    sqs, dead, source = dead_letter_queue(aws)
    send(sqs, source)
    for _ in range(2):
        received(sqs, source)
        aws.clock.sleep(3 * DAY_S)
    aws.clock.sleep(8 * DAY_S - 60)
    before = received(sqs, dead, VisibilityTimeout=1)
    aws.clock.sleep(60)
    return f"{before}, 14 days after it was sent {received(sqs, dead)}"
