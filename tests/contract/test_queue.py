"""`ports.JobQueue` on SQS."""

import pytest

from longhaul.core.message import Message
from longhaul.core.ports import Depth
from longhaul.core.queue import SendError, SqsQueue
from simulation.aws.cloud import FakeAws
from simulation.aws.sqs.client import EntryFault
from simulation.aws.sqs.queues import Stale
from tests.contract.conftest import Aws

TWELVE_HOURS_S = 43_200


class Jobs:
    """The jobs queue, for a producer and a consumer."""

    def __init__(self, aws: Aws | FakeAws) -> None:
        self.sqs = aws.client("sqs")
        self.queue = SqsQueue(self.sqs)
        self.url = str(
            self.sqs.create_queue(QueueName="jobs", Attributes={"VisibilityTimeout": "600"})[
                "QueueUrl"
            ]
        )

    def send(self, count: int = 1) -> None:
        for n in range(count):
            self.sqs.send_message(QueueUrl=self.url, MessageBody=f"job {n}")

    def receive(self) -> list[str]:
        """Handles of up to ten messages."""
        response = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10)
        return [message["ReceiptHandle"] for message in response.get("Messages", [])]

    def held(self) -> str:
        self.send()
        (handle,) = self.receive()
        return handle


@pytest.fixture
def jobs(aws: Aws) -> Jobs:
    return Jobs(aws)


def test_message_is_visible_at_once_after_a_timeout_of_zero(jobs: Jobs) -> None:
    handle = jobs.held()
    assert jobs.queue.set_visibility(jobs.url, handle, 900) == "set"
    assert jobs.receive() == []
    assert jobs.queue.set_visibility(jobs.url, handle, 0) == "set"
    assert len(jobs.receive()) == 1


def test_visibility_beyond_twelve_hours_returns_beyond_limit(aws: Aws, jobs: Jobs) -> None:
    handle = jobs.held()
    aws.clock.sleep(0.01)
    assert jobs.queue.set_visibility(jobs.url, handle, TWELVE_HOURS_S) == "beyond_limit"
    assert jobs.queue.set_visibility(jobs.url, handle, 600) == "set"


def test_unknown_handle_returns_not_held(jobs: Jobs) -> None:
    assert jobs.queue.set_visibility(jobs.url, "handle", 60) == "not_held"
    assert not jobs.queue.delete(jobs.url, "handle")


def test_deleted_message_is_no_longer_held_and_a_repeated_delete_succeeds(jobs: Jobs) -> None:
    handle = jobs.held()
    assert jobs.queue.delete(jobs.url, handle)
    assert jobs.queue.delete(jobs.url, handle)
    assert jobs.queue.set_visibility(jobs.url, handle, 0) == "not_held"
    assert jobs.receive() == []


def test_visibility_of_many_is_set_at_once_and_stale_handles_are_skipped(jobs: Jobs) -> None:
    jobs.send(12)
    handles = [*jobs.receive(), *jobs.receive()]
    jobs.queue.delete(jobs.url, handles[0])
    jobs.queue.set_visibility_many(jobs.url, dict.fromkeys(handles, 0))
    assert len([*jobs.receive(), *jobs.receive()]) == 11


def test_sent_message_arrives_with_its_attributes_and_group(jobs: Jobs) -> None:
    attributes = {
        "job_id": {"dataType": "String", "stringValue": "january"},
        "weight": {"dataType": "Number", "stringValue": "2.5"},
        "blob": {"dataType": "Binary.x", "binaryValue": "aGk="},
    }
    jobs.queue.send(jobs.url, Message("body", attributes, "tenant-1"))
    response = jobs.sqs.receive_message(
        QueueUrl=jobs.url,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["MessageGroupId"],
    )
    (message,) = response["Messages"]
    assert (message["Body"], message["Attributes"]["MessageGroupId"]) == ("body", "tenant-1")
    assert message["MessageAttributes"] == {
        "job_id": {"DataType": "String", "StringValue": "january"},
        "weight": {"DataType": "Number", "StringValue": "2.5"},
        "blob": {"DataType": "Binary.x", "BinaryValue": b"hi"},
    }


# Moto cannot play these (tests/fidelity).


@pytest.fixture
def strict_jobs(fake: FakeAws) -> Jobs:
    return Jobs(fake)


@pytest.mark.parametrize("lapsed", [False, True], ids=["received again", "lapsed"])
@pytest.mark.parametrize(
    ("stale_handles", "result"), [("fail", "not_held"), ("ignore", "set"), ("work", "set")]
)
def test_stale_handle_returns_a_result_and_raises_no_error(
    fake: FakeAws, strict_jobs: Jobs, stale_handles: Stale, result: str, *, lapsed: bool
) -> None:
    handle = strict_jobs.held()
    fake.clock.advance(601)
    if not lapsed:
        strict_jobs.receive()
    fake.sqs.stale_handles = stale_handles
    assert strict_jobs.queue.set_visibility(strict_jobs.url, handle, 60) == result
    assert strict_jobs.queue.delete(strict_jobs.url, handle)


def test_twelve_hours_count_from_the_receive(fake: FakeAws, strict_jobs: Jobs) -> None:
    strict_jobs.send()
    fake.clock.advance(24 * 3600)
    (handle,) = strict_jobs.receive()
    assert strict_jobs.queue.set_visibility(strict_jobs.url, handle, 42_000) == "set"
    fake.clock.advance(40_000)
    assert strict_jobs.queue.set_visibility(strict_jobs.url, handle, 3_201) == "beyond_limit"
    assert strict_jobs.receive() == []  # the old timeout runs on
    fake.clock.advance(2_000)
    assert len(strict_jobs.receive()) == 1


def test_entry_that_keeps_failing_keeps_its_old_timeout(fake: FakeAws, strict_jobs: Jobs) -> None:
    strict_jobs.send(2)
    lucky, unlucky = strict_jobs.receive()
    fake.sqs.entry_fault = lambda _, entry: (
        EntryFault("InternalError") if entry["ReceiptHandle"] == unlucky else None
    )
    strict_jobs.queue.set_visibility_many(strict_jobs.url, {lucky: 0, unlucky: 0})
    assert len(strict_jobs.receive()) == 1
    fake.clock.advance(600)
    assert len(strict_jobs.receive()) == 2


def test_many_messages_are_sent_with_their_group(jobs: Jobs) -> None:
    jobs.queue.send_many(jobs.url, (Message(f"job {n}", {}, "tenant") for n in range(23)))
    received = [
        message
        for _ in range(3)
        for message in jobs.sqs.receive_message(
            QueueUrl=jobs.url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        )["Messages"]
    ]
    assert sorted(message["Body"] for message in received) == sorted(f"job {n}" for n in range(23))
    assert {message["Attributes"]["MessageGroupId"] for message in received} == {"tenant"}


def test_large_messages_are_split_over_several_calls(fake: FakeAws, strict_jobs: Jobs) -> None:
    strict_jobs.queue.send_many(strict_jobs.url, [Message("x" * 400_000, {}, None)] * 5)
    assert fake.gate.counts["sqs.SendMessageBatch"] == 3
    assert len(strict_jobs.receive()) == 5


def test_only_failed_entries_of_a_batch_are_sent_again(fake: FakeAws, strict_jobs: Jobs) -> None:
    refused = iter([EntryFault("InternalError")])
    fake.sqs.entry_fault = lambda _, entry: (
        next(refused, None) if entry["MessageBody"] == "job 1" else None
    )
    strict_jobs.queue.send_many(strict_jobs.url, [Message(f"job {n}", {}) for n in range(3)])
    assert len(strict_jobs.receive()) == 3


def test_messages_that_sqs_keeps_refusing_raise_an_error(fake: FakeAws, strict_jobs: Jobs) -> None:
    refused = EntryFault("InternalError")
    fake.sqs.entry_fault = lambda _, entry: refused if entry["MessageBody"] == "job 1" else None
    with pytest.raises(SendError, match="SQS did not take 1 messages: InternalError"):
        strict_jobs.queue.send_many(strict_jobs.url, [Message(f"job {n}", {}) for n in range(3)])


def test_depth_counts_visible_and_hidden_messages(jobs: Jobs) -> None:
    jobs.send(3)
    assert jobs.queue.depth(jobs.url) == Depth(visible=3, hidden=0)
    assert len(jobs.receive()) == 3
    assert jobs.queue.depth(jobs.url) == Depth(visible=0, hidden=3)
