"""A cancel covers what was sent before it. What is sent afterwards runs."""

from typing import Any

import pytest

from longhaul.core.lease import Lease, State
from simulation.aws.ecs.client import Task
from tests.handlers.life import Life

OTHER: dict[str, Any] = {"params": {"limit": 1}}


def later(life: Life, seconds: float = 2) -> None:
    life.stack.aws.clock.advance(seconds)


def deferred(life: Life, **request: Any) -> dict[str, Any]:
    """A job that waits in the queue, because no slot is free; its record."""
    life.stack.take_slots()
    life.send(**request)
    (record,) = life.receive()
    assert life.dispatch([record]) == [record["messageId"]]
    life.stack.take_slots(all_=False)
    later(life)
    return record


def running(life: Life, **request: Any) -> Lease:
    life.running(**request)
    later(life)
    return life.row()


def cancel(life: Life) -> Lease:
    row = life.cancel()
    later(life)
    return row


@pytest.mark.parametrize("correction", [{}, OTHER], ids=["same work", "other work"])
@pytest.mark.parametrize("first", ["correction", "cancelled"])
def test_correction_of_a_cancelled_queued_job_runs_and_the_cancelled_message_does_not(
    life: Life, correction: dict[str, Any], first: str
) -> None:
    cancelled = deferred(life)
    cancel(life)
    corrected = life.send(**correction)
    (record,) = life.receive()
    for each in [record, cancelled] if first == "correction" else [cancelled, record]:
        life.dispatch([each])
        later(life)
    row = life.row()
    assert (row.state, row.attempt.number, row.receive.message_id) == (State.RUNNING, 1, corrected)
    assert life.dispatch([cancelled]) == []
    assert life.stack.dead_letters() == []
    life.succeed(row)
    assert life.stack.messages() == (0, 0)


def test_cancel_between_the_read_of_a_row_and_its_claim_is_not_erased(life: Life) -> None:
    row = running(life)
    assert life.settle(row, "exit-65-permanent") == "DEAD"
    later(life)
    life.send(**OTHER)
    (record,) = life.receive()
    leases = life.stack.parts.leases
    gate, around = life.stack.aws.gate, life.stack.aws.gate.around

    def cancel_before_the_claim(call: Any, proceed: Any) -> Any:
        gate.around = around
        if call.operation != "TransactWriteItems":
            gate.around = cancel_before_the_claim
        else:
            later(life)
            leases.request_cancel(row.key, row.stage)
        return around(call, proceed) if around else proceed()

    gate.around = cancel_before_the_claim
    assert life.dispatch([record]) == []
    assert (life.row().state, life.stack.messages()) == (State.DEAD, (0, 0))


# A job that is submitted again while its task is being stopped starts when the task has ended.


def working(life: Life, **request: Any) -> tuple[Lease, Task]:
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
    before = life.row().attempt.number
    for second in range(200):
        if life.row().attempt.number > before:
            assert task.status == "STOPPED"
            return second
        assert life.slots_taken() == 0
        life.deliver(after_s=1)
    pytest.fail("no next attempt started in 200 s")


def test_cancelled_job_starts_again_soon_after_its_task_is_killed(life: Life) -> None:
    task = cancelled(life)
    life.submit(max_attempts=1)
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
