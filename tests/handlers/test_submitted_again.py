"""A job that is submitted again while its task is being stopped begins when that is gone, and no sooner."""

from pathlib import Path

import pytest

from longhaul.domain.lease import Lease, State
from tests.fakes.ecs_tasks import Task
from tests.handlers.conftest import Stack
from tests.handlers.life import Life

JOB = "january"


@pytest.fixture
def life(stack: Stack, output: Path) -> Life:
    return Life(stack, output)


def working(life: Life, **request: int) -> tuple[Lease, Task]:
    """A job whose task heeds no SIGTERM."""
    life.send(JOB, **request)
    life.deliver()
    task = life.stack.start_task(life.row(JOB))
    return life.report(life.row(JOB)), task


def cancelled(life: Life) -> Task:
    row, task = working(life)
    life.cancel(JOB)
    assert life.settle(row, "cancelled") == "CANCELLED"
    return task


def begun_after_s(life: Life, task: Task) -> int:
    """Seconds until the next attempt begins; the task has ended then."""
    clock = life.stack.aws.clock
    before = life.row(JOB).attempt
    for second in range(200):
        if life.row(JOB).attempt > before:
            assert task.status == "STOPPED"
            return second
        assert life.slots_taken() == 0
        clock.advance(1)
        life.deliver()
    pytest.fail("it never began")


def test_a_cancelled_job_begins_anew_soon_after_its_task_has_been_killed(life: Life) -> None:
    task = cancelled(life)
    life.send(JOB, max_attempts=1)
    life.deliver()
    assert life.row(JOB).state is State.CANCELLED
    assert 120 <= begun_after_s(life, task) <= 135


def test_a_cancelled_job_whose_task_heeds_begins_anew_within_seconds(life: Life) -> None:
    task = cancelled(life)
    life.send(JOB)
    life.deliver()
    life.stack.aws.ecs.end(task, stop_code="UserInitiated", reason="")
    assert begun_after_s(life, task) <= 15


def test_a_job_whose_task_has_ended_begins_anew_at_once(life: Life) -> None:
    life.stack.aws.ecs.end(cancelled(life), stop_code="UserInitiated", reason="")
    life.send(JOB)
    life.deliver()
    assert (life.row(JOB).state, life.row(JOB).attempt) == (State.RUNNING, 2)


def test_a_job_cancelled_while_its_next_attempt_waits_is_no_exception(life: Life) -> None:
    row, task = working(life)
    assert life.settle(row, "stalled") == "RELEASED"
    assert life.cancel(JOB).state is State.CANCELLED
    life.send(JOB)
    life.deliver()
    assert 120 <= begun_after_s(life, task) <= 135


def test_a_dead_job_that_is_corrected_at_once_is_none_either(life: Life) -> None:
    row, task = working(life, max_attempts=1)
    assert life.settle(row, "timed-out") == "DEAD"
    life.send(JOB, max_attempts=2)
    life.deliver()
    assert 120 <= begun_after_s(life, task) <= 135


def test_a_task_that_nobody_has_stopped_is_stopped_by_whoever_takes_its_job_over(life: Life) -> None:
    """Settle was told that it had ended, and it had not."""
    row, task = working(life)
    life.cancel(JOB)
    assert life.settle(row, "exit-75-told-to-stop") == "CANCELLED"
    assert task.desired == "RUNNING"
    life.send(JOB)
    life.deliver()
    assert task.desired == "STOPPED"
    assert 120 <= begun_after_s(life, task) <= 135
