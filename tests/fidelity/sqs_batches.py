"""Rules of SQS: calls for several messages."""

from typing import Any

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import NOT_ASKED, Repair, Rules, recorded
from tests.fidelity.sqs import NOT_IN_FLIGHT, held, queue

RULES = Rules()


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
    oracle="a: InvalidParameterValueException, b: sent",
    why="moto refuses the whole batch. LocalStack gives the exception's name in place of the code",
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
