"""Rules of SQS: what a message may hold."""

from typing import Any

from tests.contract.conftest import Aws
from tests.fidelity.rule import Probe, Rules, recorded
from tests.fidelity.sqs import TAKEN, queue, send

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
    oracle="ok",
    embedded="ok",
    why=f"LocalStack does not count attributes. {TAKEN}",
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
    oracle="ok",
    why="LocalStack takes any delay",
)


@RULES.add("group", recorded("sqs/test_sqs.py::test_fair_queue_with_message_group_id", "2025-08"))
def message_group_of_a_received_message(aws: Aws) -> str:
    sqs, url = queue(aws)
    sqs.send_message(QueueUrl=url, MessageBody="job", MessageGroupId="group")
    answer = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["MessageGroupId"])
    (message,) = answer["Messages"]
    return str(message["Attributes"]["MessageGroupId"])
