"""Rules of SQS: receipt handles, visibility, queues."""

from typing import Any

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import NOT_ASKED, Repair, Rules, recorded

DAY_S = 24 * 3600
NOT_IN_FLIGHT = "AWS.SimpleQueueService.MessageNotInflight"
LAPSED = ("ok", NOT_IN_FLIGHT)
REAL_TIME = "It takes a minute or more, and this engine's clock is the real one"
VISIBILITY = "API_ChangeMessageVisibility"
TAKEN = "moto takes it. The fakes, which all of Longhaul's handlers meet, refuse it"
RULES = Rules()


def queue(aws: Aws, **attributes: str) -> tuple[Any, str]:
    sqs = aws.client("sqs")
    return sqs, str(sqs.create_queue(QueueName="jobs", Attributes=attributes)["QueueUrl"])


@RULES.add(
    "InvalidParameterValue",
    VISIBILITY,
    embedded="ReceiptHandleIsInvalid",
    why="moto forgets the handles of deleted messages. Longhaul takes both as `not_held`",
)
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


@RULES.add("ReceiptHandleIsInvalid", VISIBILITY)
def handle_that_is_no_handle(aws: Aws) -> str:
    sqs, url = queue(aws)
    return extended(sqs, url, "handle")


@RULES.add("ReceiptHandleIsInvalid", "API_DeleteMessage")
def deletion_with_a_handle_that_is_no_handle(aws: Aws) -> str:
    sqs, url = queue(aws)
    return code_of(lambda: sqs.delete_message(QueueUrl=url, ReceiptHandle="handle"))


@RULES.add("ok", "API_DeleteMessage")
def deletion_repeated(aws: Aws) -> str:
    sqs, url = queue(aws)
    handle = held(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    return code_of(lambda: sqs.delete_message(QueueUrl=url, ReceiptHandle=handle))


@RULES.add(
    "ok",
    recorded(
        "sqs/test_sqs.py::test_change_message_visibility_after_visibility_timeout_expiration",
        "2024-04",
    ),
    fake=LAPSED,
    embedded=NOT_IN_FLIGHT,
    why="AWS documents MessageNotInflight and was seen to answer 200. The embedded AWS is the"
    " stricter one, and the simulation plays both",
    repair=Repair("sqs.receipts", "ok"),
)
def visibility_of_a_message_that_is_visible_again(aws: Aws) -> str:
    sqs, url = queue(aws)
    handle = held(sqs, url, 1)
    aws.clock.sleep(1.5)
    return extended(sqs, url, handle)


@RULES.add(
    ("ok", "InvalidParameterValue"),
    VISIBILITY,
    embedded=NOT_IN_FLIGHT,
    why="AWS leaves it open. The simulation plays three ways: the handle works, is ignored, or"
    " is refused",
    repair=Repair("sqs.receipts", "ok"),
)
def visibility_with_an_older_handle_while_a_newer_receive_holds_the_message(aws: Aws) -> str:
    sqs, url = queue(aws)
    handle = held(sqs, url, 1)
    aws.clock.sleep(1.5)
    again = sqs.receive_message(QueueUrl=url, VisibilityTimeout=30, WaitTimeSeconds=10)
    assert again["Messages"]
    return extended(sqs, url, handle)


@RULES.add("InvalidParameterValue", VISIBILITY)
def visibility_of_43_200_s_a_moment_after_the_receive(aws: Aws) -> str:
    sqs, url = queue(aws)
    handle = held(sqs, url)
    aws.clock.sleep(1.1)
    return extended(sqs, url, handle, 43_200)


@RULES.add("InvalidParameterValue", VISIBILITY)
def visibility_of_43_201_s(aws: Aws) -> str:
    sqs, url = queue(aws)
    return extended(sqs, url, held(sqs, url), 43_201)


@RULES.add(
    "no message", recorded("sqs/test_sqs.py::test_delete_after_visibility_timeout", "2025-03")
)
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


@RULES.add("nothing", recorded("sqs/test_sqs.py::test_receive_empty_queue", "2025-02"))
def receive_from_an_empty_queue(aws: Aws) -> str:
    sqs, url = queue(aws)
    return "Messages" if "Messages" in sqs.receive_message(QueueUrl=url) else "nothing"


@RULES.add("1 message, 2 handles, receives 1, 2", "sqs-queue-message-identifiers")
def handles_of_two_receives(aws: Aws) -> str:
    sqs, url = queue(aws)
    send(sqs, url)
    received = []
    for _ in range(2):
        answer = sqs.receive_message(
            QueueUrl=url,
            VisibilityTimeout=1,
            WaitTimeSeconds=10,
            MessageSystemAttributeNames=["All"],
        )
        received += answer["Messages"]
        aws.clock.sleep(1.5)
    counts = [each["Attributes"]["ApproximateReceiveCount"] for each in received]
    sent = {(each["MessageId"], each["Attributes"]["SentTimestamp"]) for each in received}
    handles = {each["ReceiptHandle"] for each in received}
    return f"{len(sent)} message, {len(handles)} handles, receives {', '.join(counts)}"


@RULES.add("no message", VISIBILITY)
def extension_with_the_newest_handle(aws: Aws) -> str:
    sqs, url = queue(aws)
    extended(sqs, url, held(sqs, url, 1), 30)
    aws.clock.sleep(1.5)
    return received(sqs, url)


@RULES.add(
    ("ok, 0 visible, 1 in flight, 0 delayed", "ok, 0 visible, 0 in flight, 0 delayed"),
    "API_DeleteMessage",
    fake="ok, 0 visible, 1 in flight, 0 delayed",
    embedded="ok, 0 visible, 1 in flight, 0 delayed",
    why="AWS leaves it open. Both are the stricter one here, and the simulation plays both",
    repair=Repair("sqs.receipts", "ok, 0 visible, 0 in flight, 0 delayed"),
)
def deletion_with_an_older_handle_while_a_newer_receive_holds_the_message(aws: Aws) -> str:
    sqs, url = queue(aws)
    handle = held(sqs, url, 1)
    aws.clock.sleep(1.5)
    assert sqs.receive_message(QueueUrl=url, VisibilityTimeout=30, WaitTimeSeconds=10)["Messages"]
    code = code_of(lambda: sqs.delete_message(QueueUrl=url, ReceiptHandle=handle))
    return f"{code}, {counts(sqs, url)}"


def counts(sqs: Any, url: str) -> str:
    """How many messages are visible, in flight and delayed."""
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    visible, hidden, delayed = (
        found[f"ApproximateNumberOfMessages{each}"] for each in ("", "NotVisible", "Delayed")
    )
    return f"{visible} visible, {hidden} in flight, {delayed} delayed"


@RULES.add("ok", VISIBILITY)
def visibility_of_43_100_s(aws: Aws) -> str:
    sqs, url = queue(aws)
    return extended(sqs, url, held(sqs, url), 43_100)


@RULES.add("ok, InvalidParameterValue", VISIBILITY, embedded=NOT_ASKED, why=REAL_TIME)
def visibility_of_a_message_received_11_hours_ago(aws: Aws) -> str:
    sqs, url = queue(aws)
    send(sqs, url)
    aws.clock.sleep(2 * DAY_S)
    (message,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=43_200)["Messages"]
    aws.clock.sleep(11 * 3600)
    handle = str(message["ReceiptHandle"])
    return ", ".join(extended(sqs, url, handle, minutes * 60) for minutes in (59, 61))


@RULES.add("0 visible, 0 in flight, 1 delayed, then job", "sqs-delay-queues")
def message_with_a_delay(aws: Aws) -> str:
    sqs, url = queue(aws)
    send(sqs, url, DelaySeconds=2)
    before = counts(sqs, url)
    aws.clock.sleep(2.5)
    return f"{before}, then {received(sqs, url, WaitTimeSeconds=10)}"


@RULES.add(
    "0 visible, 0 in flight, 0 delayed, InvalidParameterValue",
    "API_SetQueueAttributes",
    embedded=NOT_ASKED,
    why=REAL_TIME,
)
def message_in_flight_at_the_end_of_its_retention(aws: Aws) -> str:
    sqs, url = queue(aws)
    send(sqs, url)
    aws.clock.sleep(4 * DAY_S - 10)
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    aws.clock.sleep(10)
    return f"{counts(sqs, url)}, {extended(sqs, url, str(message['ReceiptHandle']))}"
