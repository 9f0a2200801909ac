"""Rules of SQS: handles, limits, attributes."""

import json
from typing import Any

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import Rule, recorded


def queue(aws: Aws, **attributes: str) -> tuple[Any, str]:
    sqs = aws.client("sqs")
    return sqs, str(sqs.create_queue(QueueName="jobs", Attributes=attributes)["QueueUrl"])


def redrive_of_a_dead_letter_queue(aws: Aws) -> str:
    sqs, url = queue(aws)
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 1}}'
    sqs.create_queue(QueueName="source", Attributes={"RedrivePolicy": policy})
    return code_of(lambda: sqs.start_message_move_task(SourceArn=arn))


def second_purge_within_a_minute(aws: Aws) -> str:
    sqs, url = queue(aws)
    sqs.purge_queue(QueueUrl=url)
    return code_of(lambda: sqs.purge_queue(QueueUrl=url))


def visibility_of_a_deleted_message(aws: Aws) -> str:
    sqs, url = queue(aws)
    sqs.send_message(QueueUrl=url, MessageBody="job")
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return code_of(
        lambda: sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
        )
    )


def message_attribute_with_an_empty_value(aws: Aws) -> str:
    sqs, url = queue(aws)
    attributes = {"a": {"DataType": "String", "StringValue": ""}}
    return code_of(
        lambda: sqs.send_message(QueueUrl=url, MessageBody="job", MessageAttributes=attributes)
    )


def message_group_with_a_space(aws: Aws) -> str:
    sqs, url = queue(aws)
    return code_of(lambda: sqs.send_message(QueueUrl=url, MessageBody="job", MessageGroupId="a b"))


def send(sqs: Any, url: str, **more: Any) -> str:
    return code_of(lambda: sqs.send_message(QueueUrl=url, **{"MessageBody": "job", **more}))


def held(sqs: Any, url: str, seconds: int = 30) -> str:
    """The handle of a message that was just received."""
    send(sqs, url)
    (message,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=seconds)["Messages"]
    return str(message["ReceiptHandle"])


def extended(sqs: Any, url: str, handle: str, seconds: int = 60) -> str:
    return code_of(
        lambda: sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=seconds
        )
    )


def handle_that_is_no_handle(aws: Aws) -> str:
    sqs, url = queue(aws)
    return extended(sqs, url, "handle")


def deletion_with_a_handle_that_is_no_handle(aws: Aws) -> str:
    sqs, url = queue(aws)
    return code_of(lambda: sqs.delete_message(QueueUrl=url, ReceiptHandle="handle"))


def deletion_repeated(aws: Aws) -> str:
    sqs, url = queue(aws)
    handle = held(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    return code_of(lambda: sqs.delete_message(QueueUrl=url, ReceiptHandle=handle))


def visibility_of_a_message_that_is_visible_again(aws: Aws) -> str:
    sqs, url = queue(aws)
    handle = held(sqs, url, 1)
    aws.clock.sleep(1.5)
    return extended(sqs, url, handle)


def visibility_with_an_older_handle_while_a_newer_receive_holds_the_message(aws: Aws) -> str:
    sqs, url = queue(aws)
    handle = held(sqs, url, 1)
    aws.clock.sleep(1.5)
    again = sqs.receive_message(QueueUrl=url, VisibilityTimeout=30, WaitTimeSeconds=10)
    assert again["Messages"]
    return extended(sqs, url, handle)


def visibility_of_43_200_s_a_moment_after_the_receive(aws: Aws) -> str:
    sqs, url = queue(aws)
    handle = held(sqs, url)
    aws.clock.sleep(1.1)
    return extended(sqs, url, handle, 43_200)


def visibility_of_43_201_s(aws: Aws) -> str:
    sqs, url = queue(aws)
    return extended(sqs, url, held(sqs, url), 43_201)


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


def retention_of_more_than_14_days(aws: Aws) -> str:
    sqs = aws.client("sqs")
    attributes = {"MessageRetentionPeriod": str(14 * 86_400 + 1)}
    return code_of(lambda: sqs.create_queue(QueueName="jobs", Attributes=attributes))


def queue_made_again_with_other_attributes(aws: Aws) -> str:
    sqs, _ = queue(aws, VisibilityTimeout="30")
    attributes = {"VisibilityTimeout": "31"}
    return code_of(lambda: sqs.create_queue(QueueName="jobs", Attributes=attributes))


def missing_queue(aws: Aws) -> str:
    sqs = aws.client("sqs")
    return code_of(lambda: sqs.get_queue_url(QueueName="jobs"))


def dead_letter(aws: Aws, **sent: Any) -> tuple[str, dict[str, Any]]:
    """The id of a message that SQS moves after its only receive, and the dead letter."""
    sqs, dead = queue(aws)
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": 1}
    source = sqs.create_queue(
        QueueName="source",
        Attributes={"RedrivePolicy": json.dumps(policy), "VisibilityTimeout": "1"},
    )["QueueUrl"]
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


def receive_count_of_a_dead_letter(aws: Aws) -> str:
    sent, message = dead_letter(aws)
    kept = "the same id" if message["MessageId"] == sent else "another id"
    return f"{kept}, receive {message['Attributes']['ApproximateReceiveCount']}"


def deletion_of_a_message_that_is_visible_again(aws: Aws) -> str:
    sqs, url = queue(aws)
    handle = held(sqs, url, 1)
    aws.clock.sleep(1.5)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    return received(sqs, url)


def received(sqs: Any, url: str, **more: Any) -> str:
    """The body of the message that a receive returns, or `no message`."""
    messages = sqs.receive_message(QueueUrl=url, **more).get("Messages")
    return str(messages[0]["Body"]) if messages else "no message"


def receive_from_an_empty_queue(aws: Aws) -> str:
    sqs, url = queue(aws)
    return "Messages" if "Messages" in sqs.receive_message(QueueUrl=url) else "nothing"


def receive_of_eleven(aws: Aws) -> str:
    sqs, url = queue(aws)
    return code_of(lambda: sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=11))


def long_poll_of_21_s(aws: Aws) -> str:
    sqs, url = queue(aws)
    return code_of(lambda: sqs.receive_message(QueueUrl=url, WaitTimeSeconds=21))


def body_beyond_the_queues_own_limit(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize="1024")
    return send(sqs, url, MessageBody="x" * 1025)


def redrive_of_a_queue_that_is_no_dead_letter_queue(aws: Aws) -> str:
    sqs, url = queue(aws)
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    return code_of(lambda: sqs.start_message_move_task(SourceArn=arn["QueueArn"]))


def message_group_of_a_received_message(aws: Aws) -> str:
    sqs, url = queue(aws)
    sqs.send_message(QueueUrl=url, MessageBody="job", MessageGroupId="group")
    answer = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["MessageGroupId"])
    (message,) = answer["Messages"]
    return str(message["Attributes"]["MessageGroupId"])


def message_group_of_129_characters(aws: Aws) -> str:
    sqs, url = queue(aws)
    return send(sqs, url, MessageGroupId="a" * 129)


def attributes_of_a_dead_letter(aws: Aws) -> str:
    kept = {"a": {"DataType": "String", "StringValue": "v"}}
    _, message = dead_letter(aws, MessageAttributes=kept)
    source_arn = message["Attributes"]["DeadLetterQueueSourceArn"]
    return f"{message['MessageAttributes']['a']['StringValue']}, from {source_arn.split(':')[-1]}"


NOT_IN_FLIGHT = "AWS.SimpleQueueService.MessageNotInflight"
LAPSED = ("ok", NOT_IN_FLIGHT)
TWELVE_HOURS = "LocalStack does not know the limit of 12 hours"
VISIBILITY = "API_ChangeMessageVisibility"
SEND = "API_SendMessage"
RULES = [
    Rule(
        redrive_of_a_dead_letter_queue,
        "ok",
        recorded(
            "sqs/test_sqs_move_task.py::test_move_task_workflow_with_default_destination", "2024-04"
        ),
    ),
    Rule(
        second_purge_within_a_minute,
        "AWS.SimpleQueueService.PurgeQueueInProgress",
        recorded("sqs/test_sqs.py::test_successive_purge_calls_fail", "2024-04"),
        oracle="ok",
        why="LocalStack purges as often as it is asked. Longhaul never purges",
    ),
    Rule(
        visibility_of_a_deleted_message,
        "InvalidParameterValue",
        VISIBILITY,
        embedded="ReceiptHandleIsInvalid",
        why="moto forgets the handles of deleted messages. Longhaul takes both as `not_held`",
    ),
    Rule(
        message_attribute_with_an_empty_value,
        "InvalidParameterValue",
        recorded("sqs/test_sqs.py::test_send_message_with_empty_string_attribute", "2024-04"),
    ),
    Rule(
        message_group_with_a_space,
        "InvalidParameterValue",
        recorded(
            "sqs/test_sqs.py::test_send_message_to_standard_queue_with_invalid_message_group_id",
            "2025-07",
        ),
    ),
    Rule(handle_that_is_no_handle, "ReceiptHandleIsInvalid", VISIBILITY),
    Rule(deletion_with_a_handle_that_is_no_handle, "ReceiptHandleIsInvalid", "API_DeleteMessage"),
    Rule(deletion_repeated, "ok", "API_DeleteMessage"),
    Rule(
        visibility_of_a_message_that_is_visible_again,
        "ok",
        recorded(
            "sqs/test_sqs.py::test_change_message_visibility_after_visibility_timeout_expiration",
            "2024-04",
        ),
        fake=LAPSED,
        embedded=NOT_IN_FLIGHT,
        why="AWS documents MessageNotInflight and was seen to answer 200. The embedded AWS is the"
        " stricter one, and the simulation plays both",
    ),
    Rule(
        visibility_with_an_older_handle_while_a_newer_receive_holds_the_message,
        ("ok", "InvalidParameterValue"),
        VISIBILITY,
        embedded=NOT_IN_FLIGHT,
        why="AWS leaves it open. The simulation plays three ways: the handle works, is ignored, or"
        " is refused",
    ),
    Rule(
        visibility_of_43_200_s_a_moment_after_the_receive,
        "InvalidParameterValue",
        VISIBILITY,
        oracle="ok",
        why=TWELVE_HOURS,
    ),
    Rule(
        visibility_of_43_201_s, "InvalidParameterValue", VISIBILITY, oracle="ok", why=TWELVE_HOURS
    ),
    Rule(
        empty_body,
        "MissingParameter",
        recorded("sqs/test_sqs.py::test_send_empty_message", "2025-09"),
    ),
    Rule(body_with_a_control_character, "InvalidMessageContents", SEND),
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
    ),
    Rule(
        delay_of_901_s,
        "InvalidParameterValue",
        SEND,
        oracle="ok",
        why="LocalStack takes any delay",
    ),
    Rule(
        retention_of_more_than_14_days,
        "InvalidAttributeValue",
        "API_CreateQueue",
        oracle="ok",
        why="LocalStack does not look at the value",
    ),
    Rule(
        queue_made_again_with_other_attributes,
        "QueueAlreadyExists",
        recorded(
            "sqs/test_sqs.py::test_create_queue_with_different_attributes_raises_exception",
            "2024-04",
        ),
    ),
    Rule(
        missing_queue,
        "AWS.SimpleQueueService.NonExistentQueue",
        recorded("sqs/test_sqs.py::test_non_existent_queue", "2024-04"),
    ),
    Rule(
        receive_count_of_a_dead_letter,
        "the same id, receive 2",
        recorded("sqs/test_sqs.py::test_dead_letter_queue_message_attributes", "2024-04"),
    ),
    Rule(
        deletion_of_a_message_that_is_visible_again,
        "no message",
        recorded("sqs/test_sqs.py::test_delete_after_visibility_timeout", "2025-03"),
    ),
    Rule(
        receive_from_an_empty_queue,
        "nothing",
        recorded("sqs/test_sqs.py::test_receive_empty_queue", "2025-02"),
    ),
    Rule(
        receive_of_eleven,
        "InvalidParameterValue",
        recorded("sqs/test_sqs.py::test_send_receive_max_number_of_messages", "2024-04"),
    ),
    Rule(
        long_poll_of_21_s,
        "InvalidParameterValue",
        recorded("sqs/test_sqs.py::test_send_receive_wait_time_seconds", "2025-02"),
    ),
    Rule(
        body_beyond_the_queues_own_limit,
        "InvalidParameterValue",
        recorded("sqs/test_sqs.py::test_send_message_with_updated_maximum_message_size", "2024-04"),
    ),
    Rule(
        redrive_of_a_queue_that_is_no_dead_letter_queue,
        "InvalidParameterValue",
        recorded("sqs/test_sqs_move_task.py::test_source_needs_redrive_policy", "2024-04"),
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
    Rule(
        attributes_of_a_dead_letter,
        "v, from source",
        recorded("sqs/test_sqs.py::test_dead_letter_queue_message_attributes", "2024-04"),
    ),
]
