"""How a start goes on when another dispatcher, or an earlier attempt, was there first."""

from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.core.batch import Batch, Closed
from longhaul.core.claim import Claim
from longhaul.core.errors import LeaseChangedError
from longhaul.core.lease import Lease, State
from longhaul.core.pace import Pace
from longhaul.core.slots import Starter
from tests.builders import NOW, changed, message, running, stage
from tests.unit.use_cases import alone

PACE = Pace(NOW, 0.0)


def starter(**parts: Any) -> Starter:
    executions = Mock()
    executions.ensure_started.return_value = None
    descent = Mock()
    descent.with_joins.side_effect = lambda lease: lease
    return alone(Starter, **{"executions": executions, "descent": descent, **parts})


def batch() -> Batch:
    return Batch(stage(), {"m-1"})


def probe(found: Starter, row: Lease) -> Batch:
    here = batch()
    found.probe(message(receive_count=2), row, here)
    return here


def test_of_two_receives_the_later_one_holds_the_message() -> None:
    leases, messages = Mock(), Mock()
    leases.report.side_effect = LeaseChangedError(running(receive_count=3))
    here = probe(starter(leases=leases, messages=messages), running())
    assert not messages.hold.called
    assert here.kept == {"m-1"}


@pytest.mark.parametrize(
    "current",
    [
        None,
        running(state=State.SUCCEEDED, receive_count=3),
        running(run=7, receive_count=3),
        running(receive_count=1),
    ],
    ids=["gone", "ended", "another run", "an earlier receive"],
)
def test_a_receive_that_no_later_one_replaced_comes_again(current: Lease | None) -> None:
    leases = Mock()
    leases.report.side_effect = LeaseChangedError(current)
    with pytest.raises(LeaseChangedError):
        probe(starter(leases=leases), running())


@pytest.mark.parametrize("is_adopted", [True, False])
def test_an_execution_that_closed_unsettled_is_settled_after_all_claims(
    *, is_adopted: bool
) -> None:
    executions, leases, messages = Mock(), Mock(), Mock()
    executions.ensure_started.return_value = "TIMED_OUT"
    if not is_adopted:
        leases.report.side_effect = LeaseChangedError(running(receive_count=3))
    found = starter(executions=executions, leases=leases, messages=messages)

    here = probe(found, running())

    assert not messages.hold.called
    assert here.slow == [(message(receive_count=2), Closed(running().id, "TIMED_OUT"))]


def test_a_claim_whose_execution_has_closed_is_settled_after_all_claims() -> None:
    executions = Mock()
    executions.ensure_started.return_value = "FAILED"
    here = batch()
    claim = Claim(running(), replaces=None)
    starter(executions=executions).start(message(), claim, here, PACE)
    assert here.slow == [(message(), Closed(running().id, "FAILED"))]


@pytest.mark.parametrize(
    ("message_id", "task_arn", "stopped"),
    [("m-1", "arn:task", False), ("m-0", "arn:task", True), ("m-0", None, False)],
    ids=["a retry", "submitted again", "never placed"],
)
def test_a_run_waits_for_the_task_of_the_one_before(
    message_id: str, task_arn: str | None, *, stopped: bool
) -> None:
    tasks, leases, messages = Mock(), Mock(), Mock()
    tasks.stop.return_value.is_gone = False
    before = changed(running(state=State.CANCELLED), message_id=message_id, task_arn=task_arn)
    here = batch()

    starter(tasks=tasks, leases=leases, messages=messages).start(
        message(), Claim(running(), replaces=before), here, PACE
    )

    assert tasks.stop.called is stopped
    assert messages.postpone.called is stopped
    assert leases.apply.called is not stopped


def test_a_run_does_not_wait_for_a_task_whose_end_is_proved() -> None:
    tasks, leases = Mock(), Mock()
    before = changed(running(state=State.DEAD), message_id="m-0", task_arn="arn", is_over=True)
    claim = Claim(running(), replaces=before)
    starter(tasks=tasks, leases=leases).start(message(), claim, batch(), PACE)
    assert not tasks.stop.called
    assert leases.apply.called


@pytest.mark.parametrize("before", [None, running(state=State.RELEASED)], ids=["new", "a retry"])
def test_the_request_is_stored_once_a_run(before: Lease | None) -> None:
    requests = Mock()
    found = starter(requests=requests)
    claim = Claim(running(run=before.run if before else 7), replaces=before)
    found.start(message(), claim, batch(), PACE)
    assert requests.put.called is (before is None)
