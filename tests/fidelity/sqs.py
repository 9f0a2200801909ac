"""Rules of SQS: handles, limits, attributes."""

import json
from typing import Any

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import Rule


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


def batch_of_eleven(aws: Aws) -> str:
    sqs, url = queue(aws)
    entries = [{"Id": str(n), "MessageBody": "job"} for n in range(11)]
    return code_of(lambda: sqs.send_message_batch(QueueUrl=url, Entries=entries))


def batch_with_an_id_twice(aws: Aws) -> str:
    sqs, url = queue(aws)
    entries = [{"Id": "a", "MessageBody": "job"} for _ in range(2)]
    return code_of(lambda: sqs.send_message_batch(QueueUrl=url, Entries=entries))


def batch_of_more_than_one_mib(aws: Aws) -> str:
    sqs, url = queue(aws, MaximumMessageSize="1048576")
    entries = [{"Id": str(n), "MessageBody": "x" * 600_000} for n in range(2)]
    return code_of(lambda: sqs.send_message_batch(QueueUrl=url, Entries=entries))


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


def receive_count_of_a_dead_letter(aws: Aws) -> str:
    sqs, dead = queue(aws)
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": 1}
    source = sqs.create_queue(
        QueueName="source",
        Attributes={"RedrivePolicy": json.dumps(policy), "VisibilityTimeout": "1"},
    )["QueueUrl"]
    sent = sqs.send_message(QueueUrl=source, MessageBody="job")["MessageId"]
    assert sqs.receive_message(QueueUrl=source)["Messages"]
    aws.clock.sleep(1.5)
    assert "Messages" not in sqs.receive_message(QueueUrl=source, WaitTimeSeconds=1)
    received = sqs.receive_message(
        QueueUrl=dead,
        MessageSystemAttributeNames=["ApproximateReceiveCount"],
        WaitTimeSeconds=10,
    )
    (message,) = received["Messages"]
    kept = "the same id" if message["MessageId"] == sent else "another id"
    return f"{kept}, receive {message['Attributes']['ApproximateReceiveCount']}"


NOT_IN_FLIGHT = "AWS.SimpleQueueService.MessageNotInflight"
LAPSED = ("ok", NOT_IN_FLIGHT)
TWELVE_HOURS = "LocalStack does not know the limit of 12 hours"
VISIBILITY = "API_ChangeMessageVisibility"
SEND = "API_SendMessage"
BATCH = "API_SendMessageBatch"
RULES = [
    Rule(redrive_of_a_dead_letter_queue, "ok", "API_StartMessageMoveTask"),
    Rule(
        second_purge_within_a_minute,
        "AWS.SimpleQueueService.PurgeQueueInProgress",
        "API_PurgeQueue",
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
    Rule(message_attribute_with_an_empty_value, "InvalidParameterValue", SEND),
    Rule(message_group_with_a_space, "InvalidParameterValue", SEND),
    Rule(handle_that_is_no_handle, "ReceiptHandleIsInvalid", VISIBILITY),
    Rule(deletion_with_a_handle_that_is_no_handle, "ReceiptHandleIsInvalid", "API_DeleteMessage"),
    Rule(deletion_repeated, "ok", "API_DeleteMessage"),
    Rule(
        visibility_of_a_message_that_is_visible_again,
        "ok",
        "recorded by LocalStack (2024-04)",
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
    Rule(empty_body, "MissingParameter", SEND),
    Rule(body_with_a_control_character, "InvalidMessageContents", SEND),
    Rule(body_of_one_mib, "ok", SEND),
    Rule(body_beyond_one_mib, "InvalidParameterValue", SEND),
    Rule(
        eleven_attributes,
        "InvalidParameterValue",
        "sqs-message-metadata",
        oracle="ok",
        why="LocalStack does not count attributes",
    ),
    Rule(batch_of_eleven, "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", BATCH),
    Rule(batch_with_an_id_twice, "AWS.SimpleQueueService.BatchEntryIdsNotDistinct", BATCH),
    Rule(batch_of_more_than_one_mib, "AWS.SimpleQueueService.BatchRequestTooLong", BATCH),
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
    Rule(queue_made_again_with_other_attributes, "QueueAlreadyExists", "API_CreateQueue"),
    Rule(missing_queue, "AWS.SimpleQueueService.NonExistentQueue", "API_GetQueueUrl"),
    Rule(receive_count_of_a_dead_letter, "the same id, receive 2", "recorded by LocalStack"),
]
