"""Rules of SQS: what a message may hold, and calls for several messages."""

from typing import Any

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import NOT_ASKED, Probe, Repair, Rules, recorded
from tests.fidelity.sqs import NOT_IN_FLIGHT, TAKEN, held, queue, send

MIB = 1_048_576
TEXT = {"DataType": "String", "StringValue": "v"}
SEND = "API_SendMessage"
METADATA = "sqs-message-metadata"
GROUP = recorded(
    "sqs/test_sqs.py::test_send_message_to_standard_queue_with_invalid_message_group_id", "2025-07"
)
INVALID = "InvalidParameterValue"
RULES = Rules()


def sent(limit: int = MIB, **message: Any) -> Probe:
    """Sends this message to a queue whose own limit is that many bytes."""

    def probe(aws: Aws) -> str:
        sqs, url = queue(aws, MaximumMessageSize=str(limit))
        return send(sqs, url, **message)

    return probe


def attributes(count: int) -> dict[str, Any]:
    return {f"a{n}": TEXT for n in range(count)}


RULES.row(
    "message attribute with an empty value",
    sent(MessageAttributes={"a": {"DataType": "String", "StringValue": ""}}),
    INVALID,
    recorded("sqs/test_sqs.py::test_send_message_with_empty_string_attribute", "2024-04"),
    embedded="ok",
    why=TAKEN,
)
RULES.row(
    "message group with a space",
    sent(MessageGroupId="a b"),
    INVALID,
    GROUP,
    embedded="ok",
    why=TAKEN,
)
RULES.row(
    "message group of 129 characters",
    sent(MessageGroupId="a" * 129),
    INVALID,
    GROUP,
    embedded="ok",
    why=TAKEN,
)
RULES.row(
    "empty body",
    sent(MessageBody=""),
    "MissingParameter",
    recorded("sqs/test_sqs.py::test_send_empty_message", "2025-09"),
    embedded="ok",
    why=TAKEN,
)
RULES.row(
    "body with a control character",
    sent(MessageBody="a\x00b"),
    "InvalidMessageContents",
    SEND,
    embedded="ok",
    why=TAKEN,
)
RULES.row(
    "body with a tab, a line break and an emoji", sent(MessageBody="a\tb\né\U0001f600"), "ok", SEND
)
RULES.row("body of one mib", sent(MessageBody="x" * MIB), "ok", SEND)
RULES.row(
    "body beyond one mib",
    sent(MessageBody="x" * (MIB + 1)),
    INVALID,
    recorded("sqs/test_sqs.py::test_send_oversized_message", "2025-08"),
)
RULES.row(
    "body beyond the queue's own limit",
    sent(1024, MessageBody="x" * 1025),
    INVALID,
    recorded("sqs/test_sqs.py::test_send_message_with_updated_maximum_message_size", "2024-04"),
)
RULES.row(
    "body counted in bytes",
    sent(MessageBody="é" * (MIB // 2) + "x"),
    INVALID,
    SEND,
    embedded="ok",
    why=TAKEN,
)
RULES.row("ten attributes", sent(MessageAttributes=attributes(10)), "ok", METADATA)
RULES.row(
    "eleven attributes",
    sent(MessageAttributes=attributes(11)),
    INVALID,
    METADATA,
    embedded="ok",
    why=TAKEN,
)
RULES.row(
    "attributes counted in the size",
    sent(MessageBody="x" * MIB, MessageAttributes=attributes(1)),
    INVALID,
    METADATA,
    embedded="ok",
    why=TAKEN,
)
RULES.row(
    "delay of 901 s",
    sent(DelaySeconds=901),
    INVALID,
    SEND,
)


@RULES.add("group", recorded("sqs/test_sqs.py::test_fair_queue_with_message_group_id", "2025-08"))
def message_group_of_a_received_message(aws: Aws) -> str:
    sqs, url = queue(aws)
    sqs.send_message(QueueUrl=url, MessageBody="job", MessageGroupId="group")
    answer = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["MessageGroupId"])
    (message,) = answer["Messages"]
    return str(message["Attributes"]["MessageGroupId"])


@RULES.add(
    "AWS.SimpleQueueService.BatchRequestTooLong",
    recorded("sqs/test_sqs.py::test_send_message_batch_with_oversized_contents", "2025-08"),
)
def batch_of_more_than_one_mib(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize="1048576")
    entries = [{"Id": str(n), "MessageBody": "x" * 600_000} for n in range(2)]
    return code_of(lambda: sqs.send_message_batch(QueueUrl=url, Entries=entries))


@RULES.add(
    "a: InvalidParameterValue, b: sent",
    recorded("sqs/test_sqs.py::test_send_batch_message_size", "2024-04"),
    embedded=NOT_ASKED,
    why="moto refuses the whole batch",
)
def batch_with_one_body_beyond_the_queues_own_limit(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize="1024")
    entries = [{"Id": "a", "MessageBody": "x" * 1025}, {"Id": "b", "MessageBody": "job"}]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    (failed,), (sent,) = answer["Failed"], answer["Successful"]
    return f"{failed['Id']}: {failed['Code']}, {sent['Id']}: sent"


def each_of(answer: dict[str, Any]) -> str:
    """What became of each entry of a batch."""
    failed = {each["Id"]: each["Code"] for each in answer.get("Failed", [])}
    done = {each["Id"]: "ok" for each in answer.get("Successful", [])}
    return ", ".join(f"{entry}: {code}" for entry, code in sorted((failed | done).items()))


@RULES.add(
    ("a: ok", f"a: {NOT_IN_FLIGHT}"),
    "API_ChangeMessageVisibilityBatch",
    embedded="a: ReceiptHandleIsInvalid",
    why="AWS was seen to do either for a single message; moto has one error for all",
    repair=Repair("sqs.receipts", "a: ok"),
)
def visibility_of_a_batch_with_one_message_that_is_visible_again(aws: Aws) -> str:
    sqs, url = queue(aws)
    lapsed = held(sqs, url, 1)
    aws.clock.sleep(1.5)
    entries = [{"Id": "a", "ReceiptHandle": lapsed, "VisibilityTimeout": 60}]
    return each_of(sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries))
