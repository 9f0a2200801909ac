"""`ports.JobQueue` on SQS."""

import pytest

from longhaul.adapters.sqs_queue import SendError, SqsQueue
from longhaul.domain.message import MessageContent
from tests.contract.conftest import Aws
from tests.fakes.aws import FakeAws
from tests.fakes.sqs_batch import Entry, EntryFault
from tests.fakes.sqs_receipts import Stale

TWELVE_HOURS_S = 43_200


class Jobs:
    """The jobs queue, as a producer and a consumer see it."""

    def __init__(self, aws: Aws) -> None:
        self.sqs = aws.client("sqs")
        self.url = str(self.sqs.create_queue(QueueName="jobs", Attributes={"VisibilityTimeout": "600"})["QueueUrl"])

    def send(self, count: int = 1) -> None:
        for n in range(count):
            self.sqs.send_message(QueueUrl=self.url, MessageBody=f"job {n}")

    def receive(self) -> list[str]:
        """Handles of up to ten messages."""
        answer = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10)
        return [message["ReceiptHandle"] for message in answer.get("Messages", [])]

    def held(self) -> str:
        self.send()
        (handle,) = self.receive()
        return handle


@pytest.fixture
def jobs(aws: Aws) -> Jobs:
    return Jobs(aws)


@pytest.fixture
def queue(jobs: Jobs) -> SqsQueue:
    return SqsQueue(jobs.sqs)


def test_a_message_shows_when_its_visibility_is_set_to_nothing(jobs: Jobs, queue: SqsQueue) -> None:
    handle = jobs.held()
    assert queue.set_visibility(jobs.url, handle, 900) == "set"
    assert jobs.receive() == []
    assert queue.set_visibility(jobs.url, handle, 0) == "set"
    assert len(jobs.receive()) == 1


def test_more_than_twelve_hours_are_beyond_the_limit(aws: Aws, jobs: Jobs, queue: SqsQueue) -> None:
    handle = jobs.held()
    aws.clock.sleep(0.01)
    assert queue.set_visibility(jobs.url, handle, TWELVE_HOURS_S) == "beyond_limit"
    assert queue.set_visibility(jobs.url, handle, 600) == "set"


def test_a_handle_that_no_receive_gave_holds_nothing(jobs: Jobs, queue: SqsQueue) -> None:
    assert queue.set_visibility(jobs.url, "handle", 60) == "not_held"
    assert not queue.delete(jobs.url, "handle")


def test_a_deleted_message_is_held_no_more_and_deleting_it_again_is_harmless(jobs: Jobs, queue: SqsQueue) -> None:
    handle = jobs.held()
    assert queue.delete(jobs.url, handle)
    assert queue.delete(jobs.url, handle)
    assert queue.set_visibility(jobs.url, handle, 0) == "not_held"
    assert jobs.receive() == []


def test_many_are_set_at_once_and_those_not_held_are_passed_over(jobs: Jobs, queue: SqsQueue) -> None:
    jobs.send(12)
    handles = [*jobs.receive(), *jobs.receive()]
    queue.delete(jobs.url, handles[0])
    queue.set_visibility_many(jobs.url, dict.fromkeys(handles, 0))
    assert len([*jobs.receive(), *jobs.receive()]) == 11


def test_a_sent_message_arrives_with_its_attributes_and_its_group(jobs: Jobs, queue: SqsQueue) -> None:
    attributes = {
        "job_id": {"dataType": "String", "stringValue": "january"},
        "weight": {"dataType": "Number", "stringValue": "2.5"},
        "blob": {"dataType": "Binary.x", "binaryValue": "aGk="},
    }
    queue.send(jobs.url, MessageContent("body", attributes, "tenant-1"))
    answer = jobs.sqs.receive_message(
        QueueUrl=jobs.url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["MessageGroupId"]
    )
    (message,) = answer["Messages"]
    assert (message["Body"], message["Attributes"]["MessageGroupId"]) == ("body", "tenant-1")
    assert message["MessageAttributes"] == {
        "job_id": {"DataType": "String", "StringValue": "january"},
        "weight": {"DataType": "Number", "StringValue": "2.5"},
        "blob": {"DataType": "Binary.x", "BinaryValue": b"hi"},
    }


# Below: what moto does otherwise, see `tests/local/moto_repairs/test_sqs_receipts.py`.


@pytest.fixture
def strict_jobs(fake: FakeAws) -> Jobs:
    return Jobs(Aws(fake.client, fake.clock, fake))


@pytest.mark.parametrize("lapsed", [False, True], ids=["received again", "lapsed"])
@pytest.mark.parametrize(("stale_handles", "answer"), [("fail", "not_held"), ("ignore", "set"), ("work", "set")])
def test_whatever_a_stale_handle_does_the_queue_says_so_without_an_error(
    fake: FakeAws, strict_jobs: Jobs, stale_handles: Stale, answer: str, *, lapsed: bool
) -> None:
    queue = SqsQueue(strict_jobs.sqs)
    handle = strict_jobs.held()
    fake.clock.advance(601)
    if not lapsed:
        strict_jobs.receive()
    fake.sqs.stale_handles = stale_handles
    assert queue.set_visibility(strict_jobs.url, handle, 60) == answer
    assert queue.delete(strict_jobs.url, handle)


def test_twelve_hours_count_from_the_receive(fake: FakeAws, strict_jobs: Jobs) -> None:
    queue = SqsQueue(strict_jobs.sqs)
    strict_jobs.send()
    fake.clock.advance(24 * 3600)
    (handle,) = strict_jobs.receive()
    assert queue.set_visibility(strict_jobs.url, handle, 42_000) == "set"
    fake.clock.advance(40_000)
    assert queue.set_visibility(strict_jobs.url, handle, 3_201) == "beyond_limit"
    assert strict_jobs.receive() == []  # the old timeout runs on
    fake.clock.advance(2_000)
    assert len(strict_jobs.receive()) == 1


def test_entries_that_failed_by_no_fault_of_ours_are_tried_again_and_only_those(
    fake: FakeAws, strict_jobs: Jobs
) -> None:
    strict_jobs.send(12)
    handles = [*strict_jobs.receive(), *strict_jobs.receive()]
    failures = {handles[0]: 1, handles[11]: 2}
    tried: list[str] = []

    def unlucky(_: str, entry: Entry) -> EntryFault | None:
        handle = entry["ReceiptHandle"]
        tried.append(handle)
        failures[handle] = failures.get(handle, 0) - 1
        return EntryFault("InternalError") if failures[handle] >= 0 else None

    fake.sqs.entry_fault = unlucky
    SqsQueue(strict_jobs.sqs).set_visibility_many(strict_jobs.url, dict.fromkeys(handles, 0))
    assert tried == [*handles, handles[0], handles[11], handles[11]]
    assert len([*strict_jobs.receive(), *strict_jobs.receive()]) == 12


def test_an_entry_that_always_fails_is_left_to_its_old_timeout(fake: FakeAws, strict_jobs: Jobs) -> None:
    strict_jobs.send(2)
    lucky, unlucky = strict_jobs.receive()
    fake.sqs.entry_fault = lambda _, entry: EntryFault("InternalError") if entry["ReceiptHandle"] == unlucky else None
    SqsQueue(strict_jobs.sqs).set_visibility_many(strict_jobs.url, {lucky: 0, unlucky: 0})
    assert fake.gate.counts["sqs.ChangeMessageVisibilityBatch"] == 3
    assert len(strict_jobs.receive()) == 1
    fake.clock.advance(600)
    assert len(strict_jobs.receive()) == 2


def test_many_messages_are_sent_ten_in_a_call_with_their_group(jobs: Jobs, queue: SqsQueue) -> None:
    queue.send_many(jobs.url, (MessageContent(f"job {n}", {}, "tenant") for n in range(23)))
    received = [
        message
        for _ in range(3)
        for message in jobs.sqs.receive_message(
            QueueUrl=jobs.url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        )["Messages"]
    ]
    assert sorted(message["Body"] for message in received) == sorted(f"job {n}" for n in range(23))
    assert {message["Attributes"]["MessageGroupId"] for message in received} == {"tenant"}


def test_large_messages_go_in_as_many_calls_as_they_need(fake: FakeAws) -> None:
    jobs = Jobs(fake)
    SqsQueue(jobs.sqs).send_many(jobs.url, [MessageContent("x" * 400_000, {}, None)] * 5)
    assert fake.gate.counts["sqs.SendMessageBatch"] == 3
    assert len(jobs.receive()) == 5


def test_what_failed_of_a_batch_is_sent_again_and_nothing_else(fake: FakeAws) -> None:
    jobs = Jobs(fake)
    refused = iter([EntryFault("InternalError")])
    fake.sqs.entry_fault = lambda _, entry: next(refused, None) if entry["MessageBody"] == "job 1" else None
    SqsQueue(jobs.sqs).send_many(jobs.url, [MessageContent(f"job {n}", {}) for n in range(3)])
    assert len(jobs.receive()) == 3


def test_messages_that_sqs_never_takes_are_an_error_and_not_lost_in_silence(fake: FakeAws) -> None:
    jobs = Jobs(fake)
    refused = EntryFault("InternalError")
    fake.sqs.entry_fault = lambda _, entry: refused if entry["MessageBody"] == "job 1" else None
    with pytest.raises(SendError, match="SQS did not take 1 messages: InternalError"):
        SqsQueue(jobs.sqs).send_many(jobs.url, [MessageContent(f"job {n}", {}) for n in range(3)])


def test_the_backlog_is_what_is_visible(jobs: Jobs, queue: SqsQueue) -> None:
    jobs.send(3)
    assert queue.backlog(jobs.url) == 3
    assert len(jobs.receive()) == 3
    assert queue.backlog(jobs.url) == 0
