"""What AWS leaves open or to chance, the strict SQS plays as a test or a world chooses.

The rules of SQS stand in `tests/fidelity`.
"""

from typing import Any

import pytest

from simulation.aws.cloud import FakeAws
from simulation.aws.sqs.batch import EntryFault
from simulation.aws.sqs.client import FakeSqs
from simulation.aws.sqs.receipts import Stale, StaleUse
from tests.contract.refusals import code_of, refused

NOT_IN_FLIGHT = "AWS.SimpleQueueService.MessageNotInflight"


@pytest.fixture
def sqs(fake: FakeAws) -> FakeSqs:
    return fake.sqs


@pytest.fixture
def jobs(sqs: FakeSqs) -> str:
    attributes = {"VisibilityTimeout": "120"}
    return str(sqs.create_queue(QueueName="jobs", Attributes=attributes)["QueueUrl"])


def send(sqs: FakeSqs, queue: str, body: str = "job", **more: Any) -> str:
    return str(sqs.send_message(QueueUrl=queue, MessageBody=body, **more)["MessageId"])


def receive(sqs: FakeSqs, queue: str, **more: Any) -> list[dict[str, Any]]:
    asked = {"MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"], **more}
    return list(sqs.receive_message(QueueUrl=queue, **asked).get("Messages", []))


def held(sqs: FakeSqs, queue: str) -> str:
    send(sqs, queue)
    (message,) = receive(sqs, queue)
    return str(message["ReceiptHandle"])


def extend(sqs: FakeSqs, queue: str, handle: str, seconds: int = 60) -> str:
    return code_of(
        lambda: sqs.change_message_visibility(
            QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=seconds
        )
    )


def counts(sqs: FakeSqs, queue: str) -> tuple[int, int, int]:
    """Counts of messages that are visible, in flight, and delayed."""
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    return (
        int(found["ApproximateNumberOfMessages"]),
        int(found["ApproximateNumberOfMessagesNotVisible"]),
        int(found["ApproximateNumberOfMessagesDelayed"]),
    )


def test_stale_handle_fails_is_ignored_or_works_as_the_test_chooses(
    fake: FakeAws, sqs: FakeSqs, jobs: str
) -> None:
    handle = held(sqs, jobs)
    fake.clock.advance(120)
    assert extend(sqs, jobs, handle) == NOT_IN_FLIGHT
    receive(sqs, jobs)
    assert extend(sqs, jobs, handle) == "InvalidParameterValue"
    sqs.delete_message(QueueUrl=jobs, ReceiptHandle=handle)
    assert counts(sqs, jobs) == (0, 1, 0)

    uses = []

    def works(use: StaleUse) -> Stale:
        uses.append(use)
        return "work"

    sqs.stale_handles = works
    assert extend(sqs, jobs, handle, 0) == "ok"
    assert counts(sqs, jobs) == (1, 0, 0)
    sqs.delete_message(QueueUrl=jobs, ReceiptHandle=handle)
    assert counts(sqs, jobs) == (0, 0, 0)
    assert [(use.operation, use.lapsed) for use in uses] == [
        ("ChangeMessageVisibility", False),
        ("DeleteMessage", False),
    ]


def test_message_is_redelivered_while_in_flight_and_after_its_delete(
    sqs: FakeSqs, jobs: str
) -> None:
    sent = send(sqs, jobs)
    (first,) = receive(sqs, jobs)
    sqs.redeliver(jobs, sent)
    (second,) = receive(sqs, jobs)
    sqs.delete_message(QueueUrl=jobs, ReceiptHandle=second["ReceiptHandle"])
    assert counts(sqs, jobs) == (0, 0, 0)
    sqs.redeliver(jobs, sent)
    (third,) = receive(sqs, jobs)
    assert len({each["ReceiptHandle"] for each in (first, second, third)}) == 3
    assert third["Attributes"]["ApproximateReceiveCount"] == "3"
    assert receive(sqs, jobs) == []


def test_messages_are_received_out_of_order(sqs: FakeSqs, jobs: str) -> None:
    for n in range(4):
        send(sqs, jobs, str(n))
    sqs.reorder = lambda visible: visible.reverse()
    assert [each["Body"] for each in receive(sqs, jobs, MaxNumberOfMessages=3)] == ["3", "2", "1"]
    assert [each["Body"] for each in receive(sqs, jobs)] == ["0"]


def test_too_many_in_flight_fail_a_short_poll_and_leave_a_long_one_empty(
    sqs: FakeSqs, jobs: str
) -> None:
    sqs.max_in_flight = 2
    for _ in range(3):
        send(sqs, jobs)
    assert len(receive(sqs, jobs, MaxNumberOfMessages=2)) == 2
    with refused("OverLimit"):
        receive(sqs, jobs)
    assert receive(sqs, jobs, WaitTimeSeconds=20) == []


def test_entry_of_a_batch_fails_as_the_test_chooses(sqs: FakeSqs, jobs: str) -> None:
    sqs.entry_fault = lambda _, entry: (
        EntryFault("InternalError") if entry["Id"] == "unlucky" else None
    )
    entries = [
        {"Id": "good", "MessageBody": "x"},
        {"Id": "bad", "MessageBody": "x", "DelaySeconds": 901},
        {"Id": "unlucky", "MessageBody": "x"},
    ]
    response = sqs.send_message_batch(QueueUrl=jobs, Entries=entries)
    assert [each["Id"] for each in response["Successful"]] == ["good"]
    assert [(each["Id"], each["Code"], each["SenderFault"]) for each in response["Failed"]] == [
        ("bad", "InvalidParameterValue", True),
        ("unlucky", "InternalError", False),
    ]
    assert counts(sqs, jobs) == (1, 0, 0)
