"""The strict SQS refuses what SQS refuses, and delivers at least once, in any order."""

import json
from typing import Any

import pytest

from simulation.aws.cloud import FakeAws
from simulation.aws.sqs.batch import EntryFault
from simulation.aws.sqs.client import FakeSqs
from simulation.aws.sqs.receipts import Stale, StaleUse
from tests.contract.refusals import code_of, refused

DAY_S = 24 * 3600
MIB = 1_048_576
TEXT = {"DataType": "String", "StringValue": "v"}
NOT_IN_FLIGHT = "AWS.SimpleQueueService.MessageNotInflight"


@pytest.fixture
def sqs(fake: FakeAws) -> FakeSqs:
    return fake.sqs


@pytest.fixture
def dead_letters(sqs: FakeSqs) -> str:
    attributes = {"MessageRetentionPeriod": str(14 * DAY_S)}
    return str(sqs.create_queue(QueueName="dead-letters", Attributes=attributes)["QueueUrl"])


@pytest.fixture
def jobs(sqs: FakeSqs, dead_letters: str) -> str:
    policy = {"deadLetterTargetArn": sqs.queues[dead_letters].arn, "maxReceiveCount": 3}
    attributes = {"VisibilityTimeout": "120", "RedrivePolicy": json.dumps(policy)}
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


def test_each_receive_has_a_new_handle_and_is_counted(
    fake: FakeAws, sqs: FakeSqs, jobs: str
) -> None:
    sent = send(sqs, jobs)
    (first,) = receive(sqs, jobs)
    assert receive(sqs, jobs) == []
    fake.clock.advance(120)
    (second,) = receive(sqs, jobs)
    assert (first["MessageId"], second["MessageId"]) == (sent, sent)
    assert first["ReceiptHandle"] != second["ReceiptHandle"]
    assert [each["Attributes"]["ApproximateReceiveCount"] for each in (first, second)] == ["1", "2"]
    assert first["Attributes"]["SentTimestamp"] == second["Attributes"]["SentTimestamp"]


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


def test_newest_handle_deletes_even_after_its_timeout(
    fake: FakeAws, sqs: FakeSqs, jobs: str
) -> None:
    handle = held(sqs, jobs)
    fake.clock.advance(600)
    sqs.delete_message(QueueUrl=jobs, ReceiptHandle=handle)
    assert receive(sqs, jobs) == []
    assert extend(sqs, jobs, handle) == "InvalidParameterValue"
    assert extend(sqs, jobs, "no handle") == "ReceiptHandleIsInvalid"


@pytest.mark.parametrize("seconds", [-1, 43_201])
def test_visibility_outside_zero_to_twelve_hours_is_refused(
    sqs: FakeSqs, jobs: str, seconds: int
) -> None:
    handle = held(sqs, jobs)
    assert extend(sqs, jobs, handle, seconds) == "InvalidParameterValue"
    assert extend(sqs, jobs, handle, 43_200) == "ok"


def test_message_received_too_often_is_dead_lettered_and_keeps_its_age(
    fake: FakeAws, sqs: FakeSqs, jobs: str, dead_letters: str
) -> None:
    sent = send(sqs, jobs)
    for _ in range(3):
        assert len(receive(sqs, jobs)) == 1
        fake.clock.advance(DAY_S)
    assert counts(sqs, jobs) == (1, 0, 0)
    assert receive(sqs, jobs) == []
    (moved,) = receive(sqs, dead_letters)
    assert moved["MessageId"] == sent
    assert moved["Attributes"]["DeadLetterQueueSourceArn"] == sqs.queues[jobs].arn
    fake.clock.advance(11 * DAY_S)  # 14 days after it was sent to the jobs queue
    assert receive(sqs, dead_letters) == []


def test_message_is_deleted_at_the_end_of_its_retention_even_in_flight(
    fake: FakeAws, sqs: FakeSqs, jobs: str
) -> None:
    send(sqs, jobs)
    fake.clock.advance(4 * DAY_S - 10)
    (received,) = receive(sqs, jobs)
    fake.clock.advance(10)
    assert counts(sqs, jobs) == (0, 0, 0)
    assert extend(sqs, jobs, received["ReceiptHandle"]) == "InvalidParameterValue"
    fake.clock.advance(60)
    assert receive(sqs, jobs) == []


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


def test_delayed_message_is_neither_visible_nor_in_flight_until_its_delay_ends(
    fake: FakeAws, sqs: FakeSqs, jobs: str
) -> None:
    send(sqs, jobs, DelaySeconds=60)
    assert counts(sqs, jobs) == (0, 0, 1)
    assert receive(sqs, jobs) == []
    fake.clock.advance(60)
    assert counts(sqs, jobs) == (1, 0, 0)
    assert len(receive(sqs, jobs)) == 1


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"MessageBody": ""}, "MissingParameter"),
        ({"MessageBody": "\x00"}, "InvalidMessageContents"),
        ({"MessageBody": "é" * (MIB // 2) + "x"}, "InvalidParameterValue"),
        ({"MessageBody": "x" * MIB, "MessageAttributes": {"a": TEXT}}, "InvalidParameterValue"),
        (
            {"MessageBody": "x", "MessageAttributes": {f"a{n}": TEXT for n in range(11)}},
            "InvalidParameterValue",
        ),
        (
            {
                "MessageBody": "x",
                "MessageAttributes": {"a": {"DataType": "Text", "StringValue": "v"}},
            },
            "InvalidParameterValue",
        ),
        ({"MessageBody": "x", "MessageAttributes": {"AWS.a": TEXT}}, "InvalidParameterValue"),
        ({"MessageBody": "x", "DelaySeconds": 901}, "InvalidParameterValue"),
    ],
)
def test_invalid_message_is_refused(
    sqs: FakeSqs, jobs: str, message: dict[str, Any], code: str
) -> None:
    with refused(code):
        sqs.send_message(QueueUrl=jobs, **message)
    assert counts(sqs, jobs) == (0, 0, 0)


def test_entries_of_a_batch_fail_one_by_one(sqs: FakeSqs, jobs: str) -> None:
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
    (message,) = receive(sqs, jobs)
    deleted = sqs.delete_message_batch(
        QueueUrl=jobs, Entries=[{"Id": "good", "ReceiptHandle": message["ReceiptHandle"]}]
    )
    assert deleted == {"Successful": [{"Id": "good"}]}


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([{"Id": str(n), "MessageBody": "x"} for n in range(11)], "TooManyEntriesInBatchRequest"),
        ([], "EmptyBatchRequest"),
        ([{"Id": "1", "MessageBody": "x"}] * 2, "BatchEntryIdsNotDistinct"),
        ([{"Id": "a b", "MessageBody": "x"}], "InvalidBatchEntryId"),
        (
            [{"Id": str(n), "MessageBody": "x" * (MIB // 2 + 1)} for n in range(2)],
            "BatchRequestTooLong",
        ),
    ],
)
def test_invalid_batch_is_refused_whole(
    sqs: FakeSqs, jobs: str, entries: list[Any], code: str
) -> None:
    with refused(f"AWS.SimpleQueueService.{code}"):
        sqs.send_message_batch(QueueUrl=jobs, Entries=entries)
    assert counts(sqs, jobs) == (0, 0, 0)


def test_redrive_of_a_message_sent_to_the_queue_needs_a_destination(
    sqs: FakeSqs, jobs: str, dead_letters: str
) -> None:
    sent = send(sqs, dead_letters)
    source, destination = sqs.queues[dead_letters].arn, sqs.queues[jobs].arn
    sqs.start_message_move_task(SourceArn=source)
    (failed,) = sqs.list_message_move_tasks(SourceArn=source)["Results"]
    assert (failed["Status"], failed["FailureReason"]) == (
        "FAILED",
        "CouldNotDetermineMessageSource",
    )
    assert counts(sqs, jobs) == (0, 0, 0)

    sqs.start_message_move_task(SourceArn=source, DestinationArn=destination)
    (moved,) = receive(sqs, jobs)
    assert moved["MessageId"] != sent
    assert counts(sqs, dead_letters) == (0, 0, 0)
    with refused("InvalidParameterValue", "must be configured as a Dead Letter Queue"):
        sqs.start_message_move_task(SourceArn=destination, DestinationArn=source)


def test_redrive_of_a_message_that_sqs_moved_returns_it_to_its_source(
    fake: FakeAws, sqs: FakeSqs, jobs: str, dead_letters: str
) -> None:
    send(sqs, jobs)
    for _ in range(4):
        receive(sqs, jobs)
        fake.clock.advance(120)
    sqs.start_message_move_task(SourceArn=sqs.queues[dead_letters].arn)
    (message,) = receive(sqs, jobs)
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


def test_purged_queue_is_empty_and_refuses_another_purge_for_a_minute(
    fake: FakeAws, sqs: FakeSqs, jobs: str
) -> None:
    handle = held(sqs, jobs)
    sqs.purge_queue(QueueUrl=jobs)
    assert counts(sqs, jobs) == (0, 0, 0)
    assert extend(sqs, jobs, handle) == "InvalidParameterValue"
    with refused("AWS.SimpleQueueService.PurgeQueueInProgress"):
        sqs.purge_queue(QueueUrl=jobs)
    fake.clock.advance(60)
    sqs.purge_queue(QueueUrl=jobs)


def test_missing_queue_is_an_error(sqs: FakeSqs, jobs: str) -> None:
    sqs.delete_queue(QueueUrl=jobs)
    with refused("AWS.SimpleQueueService.NonExistentQueue"):
        send(sqs, jobs)
