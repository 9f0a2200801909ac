"""Rules of SQS: what a message may hold."""

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import Repair, Rule, recorded
from tests.fidelity.sqs import queue, received, send

MIB = 1_048_576
TEXT = {"DataType": "String", "StringValue": "v"}


def message_attribute_with_an_empty_value(aws: Aws) -> str:
    sqs, url = queue(aws)
    attributes = {"a": {"DataType": "String", "StringValue": ""}}
    return code_of(
        lambda: sqs.send_message(QueueUrl=url, MessageBody="job", MessageAttributes=attributes)
    )


def message_group_with_a_space(aws: Aws) -> str:
    sqs, url = queue(aws)
    return code_of(lambda: sqs.send_message(QueueUrl=url, MessageBody="job", MessageGroupId="a b"))


def empty_body(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageBody="")


def body_with_a_control_character(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageBody="a\x00b")


def body_of_one_mib(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize="1048576")
    return send(sqs, url, MessageBody="x" * 1_048_576)


def body_beyond_one_mib(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize="1048576")
    return send(sqs, url, MessageBody="x" * 1_048_577)


def eleven_attributes(aws: Aws) -> str:
    sqs, url = queue(aws)
    text = {"DataType": "String", "StringValue": "v"}
    return send(sqs, url, MessageAttributes={f"a{n}": text for n in range(11)})


def delay_of_901_s(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, DelaySeconds=901)


def body_beyond_the_queues_own_limit(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize="1024")
    return send(sqs, url, MessageBody="x" * 1025)


def message_group_of_a_received_message(aws: Aws) -> str:
    sqs, url = queue(aws)
    sqs.send_message(QueueUrl=url, MessageBody="job", MessageGroupId="group")
    answer = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["MessageGroupId"])
    (message,) = answer["Messages"]
    return str(message["Attributes"]["MessageGroupId"])


def message_group_of_129_characters(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageGroupId="a" * 129)


def body_counted_in_bytes(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize=str(MIB))
    return send(sqs, url, MessageBody="é" * (MIB // 2) + "x")


def attributes_counted_in_the_size(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize=str(MIB))
    return send(sqs, url, MessageBody="x" * MIB, MessageAttributes={"a": TEXT})


def ten_attributes(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageAttributes={f"a{n}": TEXT for n in range(10)})


def attribute_of_an_unknown_type(aws: Aws) -> str:
    sqs, url = queue(aws)
    unknown = {"DataType": "Text", "StringValue": "v"}
    return send(sqs, url, MessageAttributes={"a": unknown})


def attribute_named_as_awss_own(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageAttributes={"AWS.a": TEXT})


def body_with_a_tab_a_line_break_and_an_emoji(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageBody="a\tb\né\U0001f600")


def message_group_with_punctuation(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageGroupId="a-b_c.1")


def queue_after_a_refused_message(aws: Aws) -> str:
    sqs, url = queue(aws)
    send(sqs, url, MessageBody="")
    return received(sqs, url)


SEND = "API_SendMessage"
METADATA = "sqs-message-metadata"
RULES = [
    Rule(
        message_attribute_with_an_empty_value,
        "InvalidParameterValue",
        recorded("sqs/test_sqs.py::test_send_message_with_empty_string_attribute", "2024-04"),
        repair=Repair("sqs_limits", "ok"),
    ),
    Rule(
        message_group_with_a_space,
        "InvalidParameterValue",
        recorded(
            "sqs/test_sqs.py::test_send_message_to_standard_queue_with_invalid_message_group_id",
            "2025-07",
        ),
        repair=Repair("sqs_limits", "ok"),
    ),
    Rule(
        empty_body,
        "MissingParameter",
        recorded("sqs/test_sqs.py::test_send_empty_message", "2025-09"),
        repair=Repair("sqs_limits", "ok"),
    ),
    Rule(
        body_with_a_control_character,
        "InvalidMessageContents",
        SEND,
        repair=Repair("sqs_limits", "ok"),
    ),
    Rule(body_of_one_mib, "ok", SEND),
    Rule(
        body_beyond_one_mib,
        "InvalidParameterValue",
        recorded("sqs/test_sqs.py::test_send_oversized_message", "2025-08"),
    ),
    Rule(
        eleven_attributes,
        "InvalidParameterValue",
        "sqs-message-metadata",
        oracle="ok",
        why="LocalStack does not count attributes",
        repair=Repair("sqs_limits", "ok"),
    ),
    Rule(
        delay_of_901_s,
        "InvalidParameterValue",
        SEND,
        oracle="ok",
        why="LocalStack takes any delay",
    ),
    Rule(
        body_beyond_the_queues_own_limit,
        "InvalidParameterValue",
        recorded("sqs/test_sqs.py::test_send_message_with_updated_maximum_message_size", "2024-04"),
    ),
    Rule(
        message_group_of_a_received_message,
        "group",
        recorded("sqs/test_sqs.py::test_fair_queue_with_message_group_id", "2025-08"),
    ),
    Rule(
        message_group_of_129_characters,
        "InvalidParameterValue",
        recorded(
            "sqs/test_sqs.py::test_send_message_to_standard_queue_with_invalid_message_group_id",
            "2025-07",
        ),
    ),
    Rule(body_counted_in_bytes, "InvalidParameterValue", SEND, repair=Repair("sqs_limits", "ok")),
    Rule(
        attributes_counted_in_the_size,
        "InvalidParameterValue",
        METADATA,
        repair=Repair("sqs_limits", "ok"),
    ),
    Rule(ten_attributes, "ok", METADATA),
    Rule(attribute_of_an_unknown_type, "InvalidParameterValue", METADATA),
    Rule(
        attribute_named_as_awss_own,
        "InvalidParameterValue",
        METADATA,
        embedded="ok",
        why="moto takes any name. Longhaul's names are its own",
    ),
    Rule(body_with_a_tab_a_line_break_and_an_emoji, "ok", SEND),
    Rule(message_group_with_punctuation, "ok", SEND),
    Rule(queue_after_a_refused_message, "no message", SEND, repair=Repair("sqs_limits", "")),
]
