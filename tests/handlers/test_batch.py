"""What the messages of one batch may do to each other."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from longhaul.core.lease import AttemptId, Lease, State
from longhaul.outputs.publisher import S3Publisher
from simulation.aws.service import Answer, Call, Proceed
from tests.handlers.life import Life
from tests.handlers.stack import out

SLOW_S = 60  # real seconds: far more than a claim takes, on a busy machine too


def closed_with_its_commit(life: Life, job_id: str) -> Lease:
    """A job that committed, and whose execution ended before it was settled."""
    row = life.committed(job_id)
    life.close(row, "ABORTED")
    return row


@pytest.mark.parametrize("prepare", [Life.owing_its_publish, closed_with_its_commit])
def test_a_job_of_the_batch_is_claimed_before_another_is_published(
    life: Life, prepare: Callable[[Life, str], Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(life, "published")
    life.stack.aws.clock.advance(120)
    life.send("claimed")
    started = threading.Event()
    was_started = []
    publish = S3Publisher.publish

    # Not in the gate of the fakes: a call that waits there holds up all others.
    def publish_late(
        self: S3Publisher, attempt: AttemptId, *arguments: Any, **options: Any
    ) -> None:
        was_started.append(started.wait(SLOW_S))
        publish(self, attempt, *arguments, **options)

    def around(call: Call, proceed: Proceed) -> Answer:
        answer = proceed()
        if call.operation == "StartExecution" and "claimed" in str(call.arguments["input"]):
            started.set()
        return answer

    records = life.receive()
    assert len(records) == 2
    monkeypatch.setattr(S3Publisher, "publish", publish_late)
    life.stack.aws.gate.around = around
    life.dispatch(records)
    assert was_started == [True], "the claim waited for the publication"
    assert life.row("claimed").state is State.RUNNING
    assert life.published("published")


def send_invalid(life: Life) -> str:
    sent = life.stack.sqs.send_message(QueueUrl=life.stack.jobs_url, MessageBody="not JSON")
    return str(sent["MessageId"])


def fill(life: Life) -> None:
    for n in range(life.stage.slots):
        life.send(f"busy-{n}")
    life.deliver()
    life.deliver()


@pytest.mark.parametrize(
    "operation",
    ["BatchGetItem", "GetItem", "TransactWriteItems", "ChangeMessageVisibilityBatch"],
)
@pytest.mark.parametrize("is_full", [False, True])
def test_an_invalid_message_is_dead_lettered_once_whatever_fails_after_it(
    life: Life,
    operation: str,
    is_full: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    if is_full:
        fill(life)
    invalid, valid = send_invalid(life), life.send("valid")
    life.stack.aws.gate.around = out(operation)
    for _ in range(3):
        life.deliver()
        life.stack.aws.clock.advance(301)
    messages = life.stack.sqs.queues[life.stack.jobs_url].messages
    assert invalid not in messages
    assert valid in messages
    life.stack.aws.gate.around = None
    assert len(life.stack.dead_letters()) == 1


def test_a_settle_goes_on_when_the_limit_cannot_be_lowered(life: Life) -> None:
    life.submit("throttled")
    life.stack.aws.gate.around = out("UpdateItem")
    assert life.settle(life.row("throttled"), "no-capacity") == "RELEASED"
    life.stack.aws.gate.around = None
    left_s = {
        round(each.shows_at - life.stack.aws.clock.now().timestamp())
        for each in life.stack.sqs.queues[life.stack.jobs_url].messages.values()
    }
    assert max(left_s) < 120, "the message was released with its back-off"
