"""Deliveries during a job: twice, late, out of order, with old handles, after a deploy.

One attempt runs, and at the end the message is gone.
"""

import random
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from longhaul.core import transitions
from longhaul.core.lease import AttemptId, Lease, State
from longhaul.outputs.publisher import S3Publisher
from simulation.aws.service import Answer, Call, Proceed, unavailable
from simulation.aws.sqs.queues import Policy, Stale
from tests.faults import failing
from tests.handlers.life import Life, until


def nothing_is_left(life: Life) -> None:
    def gone() -> bool:
        return life.stack.messages() == (0, 0) and all(row.is_finished for row in life.rows())

    def pass_time() -> None:
        life.deliver(after_s=600)
        life.sweep()

    # 80 steps of ten minutes: more than the 12 h for which a message can be invisible.
    until(gone, pass_time, most=80)
    assert life.slots_taken() == 0
    assert life.stack.dead_letters() == []


def any_of(seed: int) -> Policy:
    rng = random.Random(seed)
    answers: tuple[Stale, ...] = ("work", "ignore", "fail")
    return lambda: rng.choice(answers)


@pytest.mark.parametrize(
    "stale",
    ["work", "ignore", "fail", *map(any_of, range(3))],
    ids=lambda each: each if isinstance(each, str) else "",
)
@pytest.mark.parametrize("end", ["exit-0", "exit-1", "killed", "exit-65-permanent"])
def test_job_ends_correctly_whatever_sqs_does_with_old_handles(
    life: Life, stale: Policy, end: str
) -> None:
    """The message lapses, comes twice, is handed over, released and deleted by old handles."""
    life.stack.sqs.stale_handles = stale
    row = life.running(max_attempts=2)
    clock = life.stack.aws.clock
    for _ in range(3):
        clock.advance(200)  # the message becomes visible
        life.beat(row)  # with the old handle
        second = life.receive()
        life.stack.sqs.redeliver(life.stack.jobs_url, row.receive.message_id)
        life.deliver()
        life.dispatch(second)
        life.report(row)
        life.beat(row)
    clock.advance(timedelta(hours=11, minutes=30).total_seconds())
    life.report(row)
    life.beat(row)  # hands over, if the handle is still the row's
    life.deliver()
    life.report(row)
    life.beat(row)
    assert (life.row().attempt.number, len(life.stack.executions())) == (1, 1)
    # From here on, the row's handle is an old one.
    life.stack.sqs.redeliver(life.stack.jobs_url, row.receive.message_id)
    elsewhere = life.receive()
    if end == "exit-0":
        life.complete_work(row)
    life.settle(row, end)
    life.dispatch(elsewhere)
    life.deliver(after_s=1800)
    if end in ("exit-1", "killed"):
        until(
            lambda: life.row().attempt.number == 2,
            lambda: life.deliver(after_s=600),
            most=80,
        )
        assert (life.row().state, life.row().failures) == (State.RUNNING, 1)
        life.succeed(life.row())
    letters = [why["class"] for _, why in life.stack.dead_letters()]
    assert letters == (["permanent"] if end == "exit-65-permanent" else [])
    assert life.published() == (end != "exit-65-permanent")
    nothing_is_left(life)


def twice(call: Call, proceed: Proceed) -> Answer:
    """Repeat the call, as the SDK does when the first response is lost.

    Not a receive: the mapping gets the messages of a lost response when they become visible.
    """
    if call.operation != "ReceiveMessage":
        proceed()
    return proceed()


def test_job_is_the_same_when_the_sdk_repeats_every_call(life: Life) -> None:
    life.stack.aws.gate.around = twice
    row = life.running()
    life.beat(row)
    life.settle(row, "exit-1")
    life.deliver(after_s=300)
    second = life.row()
    assert (second.state, second.attempt.number, second.failures) == (State.RUNNING, 2, 1)
    life.start_work(second)
    life.stack.parts.leases.report(
        transitions.hand_over(second.id, str(second.receive.receipt_handle))
    )
    life.complete_work(second)
    assert life.settle(second) == "SUCCEEDED"
    assert life.slots_taken() == 0
    assert len(life.stack.sfn.executions) == 2
    nothing_is_left(life)


# What the messages of one batch may do to each other.


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
        life.fill_slots()
    invalid, valid = send_invalid(life), life.send("valid")
    with failing(life.stack.aws.gate, unavailable, operation):
        for _ in range(3):
            life.deliver()
            life.stack.aws.clock.advance(301)
    messages = life.stack.sqs.queues[life.stack.jobs_url].messages
    assert invalid not in messages
    assert valid in messages
    assert len(life.stack.dead_letters()) == 1


def test_a_settle_goes_on_when_the_limit_cannot_be_lowered(life: Life) -> None:
    life.submit("throttled")
    with failing(life.stack.aws.gate, unavailable, "UpdateItem"):
        assert life.settle(life.row("throttled"), "no-capacity") == "RELEASED"
    left_s = {
        round(each.shows_at - life.stack.aws.clock.now().timestamp())
        for each in life.stack.sqs.queues[life.stack.jobs_url].messages.values()
    }
    assert max(left_s) < 120, "the message was released with its back-off"
