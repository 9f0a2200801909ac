"""A function stops its long work before Lambda ends it, and another invocation goes on."""

import threading

import pytest

from functions import dispatcher
from longhaul.core.lease import Owed, State
from longhaul.core.ports import Visibility
from longhaul.core.queue import SqsQueue
from tests.handlers.life import Life
from tests.handlers.stack import Context

LIMIT_S = 60
"""Of a hanging call: the tests end it as soon as they have seen what they look for."""


@pytest.mark.parametrize("remaining_ms", [10_000, 9_000, 0])
def test_settle_without_time_writes_the_outcome_and_leaves_the_publication_to_a_sweep(
    life: Life, remaining_ms: int
) -> None:
    row = life.committed()
    life.context.remaining_ms = remaining_ms
    assert life.settle(row, "killed") == "SUCCEEDED"
    assert (life.row().state, life.row().owed) == (
        State.SUCCEEDED,
        (Owed.PUBLISH, Owed.DELETE),
    )
    life.context.remaining_ms = 300_000
    assert life.sweep()["finished"] == 1
    assert life.published()


def test_settle_goes_on_where_the_one_before_ran_out_of_time(life: Life) -> None:
    row = life.committed()
    life.context.remaining_ms = 10_000
    life.settle(row, "killed")
    life.context.remaining_ms = 60_000
    assert life.settle(row, "killed") == "SUCCEEDED"
    assert life.published()
    assert life.row().is_finished


def test_sweep_without_time_publishes_nothing_and_does_the_rest(life: Life) -> None:
    life.owing_its_publish()
    life.context.remaining_ms = 70_000  # what its other checks need
    report = life.sweep()
    assert report == {"looked_at": 1}
    assert not life.published()
    life.context.remaining_ms = 300_000
    assert life.sweep()["finished"] == 1
    assert life.published()


def test_dispatcher_without_time_keeps_the_message_of_an_output_that_is_owed(life: Life) -> None:
    row = life.owing_its_publish()
    life.stack.aws.clock.advance(120)
    life.context.remaining_ms = 10_000
    records = life.receive()
    assert life.dispatch(records) == [row.receive.message_id]
    assert not life.published()
    life.stack.aws.clock.advance(120)
    life.context.remaining_ms = 75_000
    life.deliver()
    assert life.published()
    assert life.row().is_finished


def hanging(monkeypatch: pytest.MonkeyPatch, ends: threading.Event) -> None:
    """SQS answers no request for a visibility timeout. Not in the gate, which has a lock."""
    original = SqsQueue.set_visibility

    def hang(self: SqsQueue, queue_url: str, receipt_handle: str, seconds: int) -> Visibility:
        ends.wait(LIMIT_S)
        return original(self, queue_url, receipt_handle, seconds)

    monkeypatch.setattr(SqsQueue, "set_visibility", hang)


def test_batch_answers_in_time_while_a_call_hangs_and_repeats_no_dead_letter(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a function that Lambda ends: its answer would be lost, and the letter sent again."""
    life.submit()
    life.stack.aws.clock.advance(120)  # its message comes again, and is adopted
    invalid = life.stack.sqs.send_message(QueueUrl=life.stack.jobs_url, MessageBody="not JSON")
    records = life.receive()
    assert len(records) == 2
    ends = threading.Event()
    with monkeypatch.context() as trouble:
        hanging(trouble, ends)
        life.context.remaining_ms = 10_500
        life.dispatch(records)
        life.stack.aws.clock.advance(1)
        ends.set()
    life.context.remaining_ms = 75_000
    for _ in range(3):
        life.stack.aws.clock.advance(120)
        life.deliver()
    assert life.row(invalid["MessageId"]).is_finished
    assert len(life.stack.dead_letters()) == 1


def test_batch_begins_nothing_when_its_time_is_up(life: Life, context: Context) -> None:
    life.send()
    life.stack.sqs.send_message(QueueUrl=life.stack.jobs_url, MessageBody="not JSON")
    records = life.receive()
    context.remaining_ms = 10_000
    life.stack.aws.gate.calls.clear()
    answer = dispatcher.lambda_handler({"Records": records}, context)
    kept = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
    assert kept == {each["messageId"] for each in records}
    assert list(life.stack.aws.gate.calls) == []
