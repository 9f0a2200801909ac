"""Rules of SQS: what a message may hold."""

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import Rules, recorded
from tests.fidelity.sqs import TAKEN, queue, send

MIB = 1_048_576
TEXT = {"DataType": "String", "StringValue": "v"}
SEND = "API_SendMessage"
METADATA = "sqs-message-metadata"
RULES = Rules()


@RULES.add(
    "InvalidParameterValue",
    recorded("sqs/test_sqs.py::test_send_message_with_empty_string_attribute", "2024-04"),
    embedded="ok",
    why=TAKEN,
)
def message_attribute_with_an_empty_value(aws: Aws) -> str:
    sqs, url = queue(aws)
    attributes = {"a": {"DataType": "String", "StringValue": ""}}
    return code_of(
        lambda: sqs.send_message(QueueUrl=url, MessageBody="job", MessageAttributes=attributes)
    )


@RULES.add(
    "InvalidParameterValue",
    recorded(
        "sqs/test_sqs.py::test_send_message_to_standard_queue_with_invalid_message_group_id",
        "2025-07",
    ),
    embedded="ok",
    why=TAKEN,
)
def message_group_with_a_space(aws: Aws) -> str:
    sqs, url = queue(aws)
    return code_of(lambda: sqs.send_message(QueueUrl=url, MessageBody="job", MessageGroupId="a b"))


@RULES.add(
    "MissingParameter",
    recorded("sqs/test_sqs.py::test_send_empty_message", "2025-09"),
    embedded="ok",
    why=TAKEN,
)
def empty_body(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageBody="")


@RULES.add("InvalidMessageContents", SEND, embedded="ok", why=TAKEN)
def body_with_a_control_character(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageBody="a\x00b")


@RULES.add("ok", SEND)
def body_of_one_mib(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize="1048576")
    return send(sqs, url, MessageBody="x" * 1_048_576)


@RULES.add(
    "InvalidParameterValue", recorded("sqs/test_sqs.py::test_send_oversized_message", "2025-08")
)
def body_beyond_one_mib(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize="1048576")
    return send(sqs, url, MessageBody="x" * 1_048_577)


@RULES.add(
    "InvalidParameterValue",
    "sqs-message-metadata",
    oracle="ok",
    why=f"LocalStack does not count attributes. {TAKEN}",
    embedded="ok",
)
def eleven_attributes(aws: Aws) -> str:
    sqs, url = queue(aws)
    text = {"DataType": "String", "StringValue": "v"}
    return send(sqs, url, MessageAttributes={f"a{n}": text for n in range(11)})


@RULES.add("InvalidParameterValue", SEND, oracle="ok", why="LocalStack takes any delay")
def delay_of_901_s(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, DelaySeconds=901)


@RULES.add(
    "InvalidParameterValue",
    recorded("sqs/test_sqs.py::test_send_message_with_updated_maximum_message_size", "2024-04"),
)
def body_beyond_the_queues_own_limit(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize="1024")
    return send(sqs, url, MessageBody="x" * 1025)


@RULES.add("group", recorded("sqs/test_sqs.py::test_fair_queue_with_message_group_id", "2025-08"))
def message_group_of_a_received_message(aws: Aws) -> str:
    sqs, url = queue(aws)
    sqs.send_message(QueueUrl=url, MessageBody="job", MessageGroupId="group")
    answer = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["MessageGroupId"])
    (message,) = answer["Messages"]
    return str(message["Attributes"]["MessageGroupId"])


@RULES.add(
    "InvalidParameterValue",
    recorded(
        "sqs/test_sqs.py::test_send_message_to_standard_queue_with_invalid_message_group_id",
        "2025-07",
    ),
    embedded="ok",
    why=TAKEN,
)
def message_group_of_129_characters(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageGroupId="a" * 129)


@RULES.add("InvalidParameterValue", SEND, embedded="ok", why=TAKEN)
def body_counted_in_bytes(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize=str(MIB))
    return send(sqs, url, MessageBody="é" * (MIB // 2) + "x")


@RULES.add("InvalidParameterValue", METADATA, embedded="ok", why=TAKEN)
def attributes_counted_in_the_size(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize=str(MIB))
    return send(sqs, url, MessageBody="x" * MIB, MessageAttributes={"a": TEXT})


@RULES.add("ok", METADATA)
def ten_attributes(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageAttributes={f"a{n}": TEXT for n in range(10)})


@RULES.add("ok", SEND)
def body_with_a_tab_a_line_break_and_an_emoji(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageBody="a\tb\né\U0001f600")
