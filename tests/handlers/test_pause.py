"""A paused stage: nothing starts, and all that needs no slot goes on."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from longhaul.core.lease import State
from tests.handlers.life import Life
from tests.handlers.stack import deployed


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
    assert copy.attributes["longhaul_renews"]["StringValue"] == first

    life.stack.parts.slots.resume(life.stage, life.stack.aws.clock.now())
    life.deliver()
    assert life.row("waits").state is State.RUNNING


def test_what_runs_is_settled_and_its_next_attempt_waits(life: Life) -> None:
    life.submit("fails")
    life.stack.parts.slots.pause(life.stage, life.stack.aws.clock.now())
    assert life.settle(life.row("fails"), "exit-1") == "RELEASED"
    life.deliver(after_s=timedelta(hours=1).total_seconds())
    assert (life.row("fails").state, life.slots_taken()) == (State.RELEASED, 0)


@pytest.mark.parametrize("claims_before", [1, 0])
def test_a_message_that_waits_for_hours_is_looked_at_ever_less_often_also_after_a_pause(
    output: Path, claims_before: int
) -> None:
    with deployed() as stack:
        life, clock, slots = Life(stack, output), stack.aws.clock, stack.parts.slots
        slots.set_slots(life.stage, 1)
        if claims_before:
            life.submit("runs for long")
            stack.sqs.purge_queue(QueueUrl=stack.jobs_url)  # the other's message alone is counted
        slots.pause(life.stage, clock.now())
        if claims_before:
            clock.advance(3_600)
            slots.resume(life.stage, clock.now())
        life.send("waits")

        looks = 0
        for _ in range(10 * 120):
            looks += life.deliver()
            clock.advance(30)

    # Each time it is hidden for a twentieth of what has passed: as the logarithm of that.
    assert 60 < looks < 200
