import json
from threading import Event
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.local.moto_repairs import sqs_move_task, sqs_receive
from tests.local.support import Moto, error_code


@pytest.fixture
def sqs(moto: Moto, *, repaired: bool) -> Any:
    if repaired:
        sqs_receive.apply(moto.patches, Event())
        sqs_move_task.apply(moto.patches)
    return moto.client("sqs")


class Queues:
    """A jobs queue whose messages are dead letters after one receive."""

    def __init__(self, sqs: Any) -> None:
        self.sqs = sqs
        self.dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
        policy = {"deadLetterTargetArn": self.arn(self.dead), "maxReceiveCount": 1}
        self.jobs = sqs.create_queue(
            QueueName="jobs", Attributes={"RedrivePolicy": json.dumps(policy)}
        )["QueueUrl"]

    def arn(self, url: str) -> str:
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(found["Attributes"]["QueueArn"])

    def take(self, url: str, seconds: int = 0) -> list[dict[str, Any]]:
        received = self.sqs.receive_message(
            QueueUrl=url,
            VisibilityTimeout=seconds,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return list(received.get("Messages", []))

    def make_dead_letter(self, body: str) -> None:
        text = {"a": {"DataType": "String", "StringValue": "v"}}
        self.sqs.send_message(QueueUrl=self.jobs, MessageBody=body, MessageAttributes=text)
        assert len(self.take(self.jobs)) == 1
        assert self.take(self.jobs) == []


@pytest.fixture
def queues(sqs: Any) -> Queues:
    return Queues(sqs)


def test_dead_letter_names_its_source_queue(queues: Queues, *, repaired: bool) -> None:
    queues.make_dead_letter("job")
    (letter,) = queues.take(queues.dead)
    source = letter["Attributes"].get("DeadLetterQueueSourceArn")
    assert source == (queues.arn(queues.jobs) if repaired else None)


def test_dead_letters_move_back_as_new_messages(queues: Queues, *, repaired: bool) -> None:
    queues.make_dead_letter("job")
    dead = queues.arn(queues.dead)
    if not repaired:
        with pytest.raises(ClientError, match="500"):
            queues.sqs.start_message_move_task(SourceArn=dead)
        return

    queues.sqs.start_message_move_task(SourceArn=dead)

    assert queues.take(queues.dead) == []
    (message,) = queues.take(queues.jobs)
    assert message["Body"] == "job"
    assert message["MessageAttributes"]["a"]["StringValue"] == "v"
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    (task,) = queues.sqs.list_message_move_tasks(SourceArn=dead)["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 1)


@pytest.mark.parametrize("repaired", [True])
def test_dead_letters_move_to_a_named_queue(queues: Queues) -> None:
    other = queues.sqs.create_queue(QueueName="other")["QueueUrl"]
    queues.sqs.send_message(QueueUrl=queues.dead, MessageBody="sent by hand")
    queues.sqs.start_message_move_task(
        SourceArn=queues.arn(queues.dead), DestinationArn=queues.arn(other)
    )
    assert [message["Body"] for message in queues.take(other)] == ["sent by hand"]


@pytest.mark.parametrize("repaired", [True])
def test_message_without_a_source_fails_the_task_and_stays(queues: Queues) -> None:
    queues.sqs.send_message(QueueUrl=queues.dead, MessageBody="sent by hand")
    queues.sqs.start_message_move_task(SourceArn=queues.arn(queues.dead))
    (task,) = queues.sqs.list_message_move_tasks(SourceArn=queues.arn(queues.dead))["Results"]
    assert task["FailureReason"] == "CouldNotDetermineMessageSource"
    assert len(queues.take(queues.dead)) == 1


@pytest.mark.parametrize("repaired", [True])
def test_queue_that_no_queue_names_as_its_dead_letter_queue_is_refused(queues: Queues) -> None:
    with pytest.raises(ClientError) as refusal:
        queues.sqs.start_message_move_task(SourceArn=queues.arn(queues.jobs))
    assert error_code(refusal.value) == "InvalidParameterValue"
