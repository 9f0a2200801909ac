"""A job that is submitted again while its task is being stopped starts when the task has ended."""

from datetime import timedelta
from pathlib import Path

import pytest

from longhaul.core.lease import Lease, State
from simulation.aws.ecs.tasks import Task
from tests.handlers.life import Life
from tests.handlers.stack import deployed


def working(life: Life, **request: int | str) -> tuple[Lease, Task]:
    """A job that runs in a task that ignores SIGTERM."""
    life.submit(**request)
    task = life.stack.start_task(life.row())
    return life.report(life.row()), task


def cancelled(life: Life) -> Task:
    row, task = working(life)
    life.cancel()
    assert life.settle(row, "cancelled") == "CANCELLED"
    return task


def started_after_s(life: Life, task: Task) -> int:
    """Seconds until the next attempt starts; by then the task has ended."""
    clock = life.stack.aws.clock
    before = life.row().attempt.number
    for second in range(200):
        if life.row().attempt.number > before:
            assert task.status == "STOPPED"
            return second
        assert life.slots_taken() == 0
        clock.advance(1)
        life.deliver()
    pytest.fail("no next attempt started in 200 s")


def test_cancelled_job_starts_again_soon_after_its_task_is_killed(life: Life) -> None:
    task = cancelled(life)
    life.submit(max_attempts=1)
    assert life.row().state is State.CANCELLED
    assert 120 <= started_after_s(life, task) <= 135


def test_cancelled_job_whose_task_stops_at_once_starts_again_within_seconds(life: Life) -> None:
    task = cancelled(life)
    life.submit()
    life.stack.aws.ecs.end(task, stop_code="UserInitiated", reason="")
    assert started_after_s(life, task) <= 15


def test_job_that_is_planned_anew_begins_after_its_task_is_killed(life: Life) -> None:
    task = cancelled(life)
    soon = life.stack.aws.clock.now() + timedelta(seconds=5)
    life.submit(start_at=soon.isoformat())
    assert life.row().state is State.CANCELLED
    assert 120 <= started_after_s(life, task) <= 135


def test_task_that_settle_did_not_stop_is_stopped_by_the_next_claim(life: Life) -> None:
    """The event says that the task has ended, but the task still runs."""
    row, task = working(life)
    life.cancel()
    assert life.settle(row, "exit-75-told-to-stop") == "CANCELLED"
    assert task.desired == "RUNNING"
    life.submit()
    assert task.desired == "STOPPED"
    assert 120 <= started_after_s(life, task) <= 135


def test_left_over_message_of_a_dead_job_is_no_conflict_with_its_correction(output: Path) -> None:
    """The last attempt was claimed from its row, while the job's message was hidden."""
    with deployed(max_attempts=2, slots=1) as stack:
        life, clock = Life(stack, output), stack.aws.clock
        life.submit()
        assert life.settle(life.row(), "exit-1") == "RELEASED"
        stack.take_slots()
        clock.advance(20)
        (held,) = life.receive()
        stack.sqs.change_message_visibility(
            QueueUrl=stack.jobs_url, ReceiptHandle=held["receiptHandle"], VisibilityTimeout=1_500
        )
        clock.advance(200)
        stack.take_slots(all_=False)
        life.submit("february")
        assert life.settle(life.row(), "exit-1") == "DEAD"
        assert len(stack.dead_letters()) == 1
        life.submit(params={"corrected": True})
        assert life.row().state is State.RUNNING

        for wait_s in (1_500, 130):  # of two messages for one job, the second comes again
            clock.advance(wait_s)
            life.deliver()

        assert held["messageId"] not in stack.sqs.queues[stack.jobs_url].messages
        assert life.row().state is State.RUNNING
        assert [why["class"] for _, why in stack.dead_letters()] == ["failed"]
