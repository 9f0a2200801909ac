"""A job that is to begin later: its row waits, its message is hidden, and nothing runs."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.lease import State
from longhaul.core.metrics import StageMetric
from longhaul.core.policy import MAX_PLANNED
from tests.emf import metrics_in
from tests.handlers.life import Kill, Life
from tests.handlers.stack import deployed
from tests.handlers.test_retry_first import hide_for

IN_THREE_DAYS = timedelta(days=3)


@pytest.fixture
def life(output: Path) -> Iterator[Life]:
    with deployed(slots=1) as stack:
        yield Life(stack, output)


def plan(life: Life, job_id: str, after: timedelta = IN_THREE_DAYS, **changes: Any) -> None:
    at = life.stack.aws.clock.now() + after
    life.send(job_id, start_at=at.isoformat(), **changes)


def pass_days(life: Life, days: float) -> None:
    """As the mapping does: it polls all the time."""
    for _ in range(round(days * 24)):
        life.stack.aws.clock.advance(3_600)
        life.deliver()


def test_job_begins_at_its_time_and_waits_with_a_row(life: Life) -> None:
    plan(life, "december")
    life.deliver()

    row = life.row("december")
    assert (row.state, row.is_planned, row.attempt.number) == (State.RELEASED, True, 0)
    assert not life.stack.executions()
    assert life.stack.parts.slots.room(life.stage, life.stack.aws.clock.now()).free == 1

    pass_days(life, 3 - 1 / 24)
    assert life.row("december").state is State.RELEASED
    life.stack.aws.clock.advance(3_601)
    life.deliver()

    row = life.row("december")
    assert (row.state, row.is_planned, row.attempt.number) == (State.RUNNING, False, 1)
    assert row.input.attempt == 1
    life.succeed(row)
    assert life.row("december").state is State.SUCCEEDED


def test_planned_job_takes_no_turn_before_those_that_wait(life: Life) -> None:
    plan(life, "planned", timedelta(hours=1))
    life.deliver()
    hide_for(life, hours=10)
    life.stack.aws.clock.advance(2 * 3_600)
    life.submit("new")

    assert life.row("new").state is State.RUNNING
    assert life.row("planned").state is State.RELEASED


def test_lost_message_of_a_planned_job_is_sent_again(life: Life) -> None:
    plan(life, "december")
    life.deliver()
    life.stack.sqs.purge_queue(QueueUrl=life.stack.jobs_url)
    life.stack.aws.clock.advance(3 * 86_400 + 6 * 3_600 + 1)
    life.sweep()
    life.deliver()

    row = life.row("december")
    assert (row.state, row.attempt.number) == (State.RUNNING, 1)


def test_planned_jobs_are_no_backlog_and_do_not_wait_too_long(
    life: Life, capsys: pytest.CaptureFixture[str]
) -> None:
    plan(life, "december")
    life.deliver()
    pass_days(life, 1)
    life.sweep()

    values = {each.name: each.value for each in metrics_in(capsys.readouterr().out)}
    assert values[StageMetric.BACKLOG] == 0
    assert values[StageMetric.OLDEST_WAITING] == 0
    assert life.stack.parts.slots.room(life.stage, life.stack.aws.clock.now()).planned == 1

    pass_days(life, 3)
    life.sweep()
    assert life.stack.parts.slots.room(life.stage, life.stack.aws.clock.now()).planned == 0


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", range(1, 8))
def test_dispatcher_killed_at_any_call_plans_the_job_once(
    life: Life, call: int, *, after: bool
) -> None:
    plan(life, "december")
    with Kill(life.stack.aws.gate, call, after=after):
        life.deliver()
    pass_days(life, 3.1)

    row = life.row("december")
    assert (row.state, row.attempt.number) == (State.RUNNING, 1)
    assert len(life.stack.executions()) == 1


def test_stage_with_many_planned_jobs_takes_no_more(life: Life) -> None:
    life.stack.parts.slots.note_planned(life.stage, MAX_PLANNED)
    plan(life, "december")
    plan(life, "now", -timedelta(seconds=1))
    life.deliver()

    (letter,) = life.stack.dead_letters()
    assert "50,000 planned jobs already" in str(letter)
    assert life.row("now").state is State.RUNNING
