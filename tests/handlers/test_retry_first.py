"""A retry gets the next free slot, although its message is far behind in the queue."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from longhaul.core.lease import State
from tests.handlers.life import Life
from tests.handlers.stack import deployed


@pytest.fixture
def life(output: Path) -> Iterator[Life]:
    with deployed(slots=1) as stack:
        yield Life(stack, output)


def released(life: Life, job_id: str) -> None:
    """A job that failed once. SQS does not give out its message, because others wait before it."""
    life.submit(job_id)
    assert life.settle(life.row(job_id), "exit-1") == "RELEASED"
    hide_for(life, hours=10)


def hide_for(life: Life, *, hours: int) -> None:
    for message in life.stack.sqs.queues[life.stack.jobs_url].messages.values():
        at = life.stack.aws.clock.now() + timedelta(hours=hours)
        life.stack.sqs.queues[life.stack.jobs_url].show(message, at.timestamp())


def test_retry_takes_the_slot_before_a_new_job_does(life: Life) -> None:
    released(life, "failed-once")
    life.stack.aws.clock.advance(3_600)
    life.submit("new")

    row = life.row("failed-once")
    assert (row.state, row.attempt.number) == (State.RUNNING, 2)
    assert row.receive.receipt_handle is None, "its message is adopted when it comes"
    assert [each.key for each in life.rows()] == ["main#failed-once"]

    # The message comes, and is the running job's own.
    life.stack.aws.clock.advance(9 * 3_600)
    life.report(row)
    life.deliver()
    assert life.row("failed-once").receive.receipt_handle is not None
    assert life.row("failed-once").attempt.number == 2


def test_retry_that_ends_before_its_message_comes_lets_that_message_go(life: Life) -> None:
    released(life, "failed-once")
    life.stack.aws.clock.advance(3_600)
    life.submit("new")
    life.succeed(life.row("failed-once"))
    assert life.row("failed-once").state is State.SUCCEEDED

    life.stack.aws.clock.advance(10 * 3_600)
    life.deliver()
    assert life.row("new").state is State.RUNNING
    (left,) = life.stack.sqs.queues[life.stack.jobs_url].messages.values()
    assert left.id == life.row("new").receive.message_id
