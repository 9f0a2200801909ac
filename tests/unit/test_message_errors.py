"""One message's error leaves the others of its batch alone, and ends in a dead letter at last."""

from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.core.batch import Batch, Guard
from longhaul.core.dead_letter import Reason
from longhaul.core.lease import Lease, State
from tests.builders import message, running, stage
from tests.unit.use_cases import alone


def failing(batch: Batch, row: Lease | None, **parts: Any) -> Guard:
    """Whatever is done for the message fails, for the last time."""
    leases, giving_up = parts.pop("leases", Mock()), Mock()
    leases.load.return_value = row
    giving_up.is_due.return_value = True
    guard = alone(Guard, **{"leases": leases, "giving_up": giving_up, **parts})
    with guard.message(batch, message()):
        raise ValueError
    return guard


def test_a_message_without_a_row_is_a_dead_job() -> None:
    batch, leases = Batch(stage(), {"m-1"}), Mock()
    leases.apply.side_effect = lambda change: change.after
    failing(batch, None, leases=leases)
    ((_, dead),) = batch.refused
    assert isinstance(dead, Lease)
    assert (dead.state, dead.last_class) == (State.DEAD, "internal_error")


@pytest.mark.parametrize("row", [None, running(message_id="m-0")], ids=["no row", "another's"])
def test_a_message_without_a_job_is_refused_counted_and_told(row: Lease | None) -> None:
    """Nor can the row of a dead one be written."""
    batch, requests = Batch(stage(), {"m-1", "m-2"}), Mock()
    requests.put.side_effect = ValueError
    guard = failing(batch, row, requests=requests)
    send: Any = guard.giving_up.send
    ((message_id, reason),) = batch.refused
    assert isinstance(reason, Reason)
    assert (reason.kind, message_id) == ("internal_error", "m-1")
    assert send.call_args.args[::2] == (stage().dead_letter_queue_url, reason)
    assert (batch.kept, batch.dead_lettered) == ({"m-2"}, ["m-1"])


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_waiting_job_is_given_up_and_its_message_goes_when_nothing_is_owed(
    *, is_finished: bool
) -> None:
    batch, finisher, giving_up = Batch(stage(), {"m-1"}), Mock(), Mock()
    giving_up.end.return_value = running(state=State.DEAD)
    finisher.finish.return_value.is_finished = is_finished
    failing(batch, running(state=State.RELEASED), finisher=finisher, giving_up=giving_up)
    assert ("m-1" in batch.kept) is not is_finished
    assert finisher.finish.call_args.args[0].receive.receipt_handle == message().receipt_handle
