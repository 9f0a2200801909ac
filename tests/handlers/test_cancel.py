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
