"""A cancel covers what was sent before it. What is sent afterwards runs."""

from typing import Any

import pytest

from longhaul.core.lease import Lease, State
from tests.handlers.life import Life

OTHER = {"params": {"limit": 1}}


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


def test_mark_of_a_queued_job_is_not_swept_and_expires(life: Life) -> None:
    life.cancel()
    assert list(life.stack.parts.index.open_keys("main", "RELEASED")) == []
    (item,) = life.items()
    assert "ttl" in item


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


def test_correction_of_a_cancelled_queued_job_is_called_as_that_was(life: Life) -> None:
    record = deferred(life, label="2013-01", tags={"team": "web"})
    cancel(life)
    life.dispatch([record])
    row = life.begin(**OTHER)
    assert (row.state, row.label, row.tags) == (State.RUNNING, "2013-01", {"team": "web"})


def test_cancelled_message_does_not_run_when_the_correction_has_died(life: Life) -> None:
    cancelled = deferred(life)
    cancel(life)
    life.submit(max_attempts=1, **OTHER)
    assert life.settle(life.row(), "exit-1") == "DEAD"
    later(life)
    assert life.dispatch([cancelled]) == []
    assert life.row().state is State.DEAD
    assert len(life.stack.dead_letters()) == 1


def test_mark_covers_every_message_that_waits(life: Life) -> None:
    life.send()
    life.send(**OTHER)
    later(life)
    cancel(life)
    for _ in range(2):  # of two messages with one key in a batch, the second comes again later
        life.deliver()
        later(life, 120)
    assert (life.row().state, life.stack.executions()) == (State.CANCELLED, [])
    assert (life.stack.messages(), life.stack.dead_letters()) == ((0, 0), [])


@pytest.mark.parametrize("again", [{}, OTHER], ids=["same work", "other work"])
def test_what_is_sent_while_a_cancelled_job_stops_runs_when_it_has_stopped(
    life: Life, again: dict[str, Any]
) -> None:
    row = running(life)
    assert cancel(life).state is State.RUNNING
    sent = life.submit(**again)
    assert (life.row().id, life.stack.messages()) == (row.id, (0, 2))
    assert life.settle(row, "cancelled") == "CANCELLED"
    later(life, 15)
    life.deliver()
    row = life.row()
    assert (row.state, row.attempt.number, row.receive.message_id) == (State.RUNNING, 2, sent)
    assert (row.cancel_requested_at, row.failures) == (None, 0)
    life.succeed(row)
    assert life.stack.messages() == (0, 0)


@pytest.mark.parametrize("again", [{}, OTHER], ids=["same work", "other work"])
def test_what_was_sent_before_the_cancel_of_a_running_job_does_not_run(
    life: Life, again: dict[str, Any]
) -> None:
    row = running(life)
    life.send(**again)
    later(life)
    cancel(life)
    life.deliver()
    assert life.settle(row, "cancelled") == "CANCELLED"
    later(life, 120)
    life.deliver()
    assert (life.row().state, life.stack.messages()) == (State.CANCELLED, (0, 0))
    assert life.stack.dead_letters() == []


def test_cancel_that_comes_too_late_leaves_the_success_and_tells_the_next_sender(
    life: Life,
) -> None:
    row = running(life)
    life.commit(row)
    cancel(life)
    life.submit(**OTHER)
    assert life.settle(row, "cancelled") == "SUCCEEDED"
    later(life, 15)
    life.deliver()
    ((_, why),) = life.stack.dead_letters()
    assert (why["class"], life.stack.messages()) == ("conflicting_job_id", (0, 0))


def test_message_sent_after_a_cancel_ends_a_waiting_job_whose_canceller_died(life: Life) -> None:
    """The mark was written, and the row was not ended."""
    row = running(life)
    assert life.settle(row, "exit-1") == "RELEASED"
    life.stack.parts.leases.request_cancel(row.key, row.stage)
    later(life)
    sent = life.send(**OTHER)
    life.dispatch([each for each in life.receive() if each["messageId"] == sent])
    row = life.row()
    assert (row.state, row.failures, row.receive.message_id) == (State.RUNNING, 0, sent)
    later(life, 900)
    life.deliver()  # the message of the first run
    assert life.row().id == row.id
    assert life.stack.messages() == (0, 1)


@pytest.mark.parametrize("end", ["cancelled", "exit-65-permanent"])
def test_second_cancel_covers_what_waits_to_run_an_ended_job_again(life: Life, end: str) -> None:
    row = running(life)
    if end == "cancelled":
        cancel(life)
    assert life.settle(row, end) in ("CANCELLED", "DEAD")
    later(life)
    record = deferred(life, **OTHER)
    state = cancel(life).state
    assert life.dispatch([record]) == []
    assert (life.row().state, life.row().attempt.number) == (state, 1)


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
