"""A paused stage: nothing starts, and all that needs no slot goes on."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from longhaul.domain.lease import State
from tests.handlers.conftest import deployed
from tests.handlers.life import Life


@pytest.fixture
def life(output: Path) -> Iterator[Life]:
    with deployed(lease={"renew_receives": 2}) as stack:
        yield Life(stack, output)


def test_messages_wait_are_renewed_and_run_after_the_pause(life: Life) -> None:
    life.stack.parts.slots.pause(life.stage, life.stack.aws.clock.now())
    first = life.send("waits")
    for _ in range(3):
        life.deliver()
        life.stack.aws.clock.advance(1_800)
    assert life.rows() == []
    (copy,) = life.stack.sqs.queues[life.stack.jobs_url].messages.values()
    assert copy.attributes["renews"]["StringValue"] == first

    life.stack.parts.slots.resume(life.stage)
    life.deliver()
    assert life.row("waits").state is State.RUNNING


def test_what_runs_is_settled_and_its_next_attempt_waits(life: Life) -> None:
    life.send("fails")
    life.deliver()
    life.stack.parts.slots.pause(life.stage, life.stack.aws.clock.now())
    assert life.settle(life.row("fails"), "exit-1") == "RELEASED"
    life.stack.aws.clock.advance(timedelta(hours=1).total_seconds())
    life.deliver()
    assert (life.row("fails").state, life.slots_taken()) == (State.RELEASED, 0)


def test_a_body_that_is_not_valid_is_dead_lettered_during_a_pause(life: Life) -> None:
    life.stack.parts.slots.pause(life.stage, life.stack.aws.clock.now())
    life.stack.sqs.send_message(QueueUrl=life.stack.jobs_url, MessageBody="{}")
    life.deliver()
    assert len(life.stack.dead_letters()) == 1
