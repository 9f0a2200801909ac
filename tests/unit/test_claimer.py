"""How a claim goes on when it loses a race, and what a message without a slot leaves behind."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.core.claim import Claim
from longhaul.core.descent import Lineage
from longhaul.core.dispatch import Batch, Claimer, Closed, Dispatcher, Messages
from longhaul.core.errors import LeaseChangedError, NoFreeSlotError
from longhaul.core.lease import Lease, State, key_hash
from longhaul.core.message import JobMessage
from longhaul.core.pace import Room
from longhaul.core.ports import Rows
from longhaul.core.settings import LeaseSettings
from longhaul.core.transitions import Change
from simulation.aws.clock import VirtualClock
from tests.builders import NOW, changed, message, running, stage
from tests.unit.use_cases import alone

SECOND = timedelta(seconds=1)
MISSING = LeaseSettings().missing_after_s * SECOND


def rows(*found: Lease) -> Mock:
    """The rows of released jobs, and what is written."""
    leases = Mock()
    leases.open_keys.return_value = iter([row.key for row in found])
    leases.load_many.return_value = Rows({row.key: row for row in found})
    return leases


def claimer(**parts: Any) -> Claimer:
    """Everything runs at once, in this thread."""
    background, executions, descent = Mock(), Mock(), Mock()
    background.run_all.side_effect = lambda tasks, **_: [task() for task in tasks]
    executions.ensure_started.return_value = None
    descent.with_joins.side_effect = lambda lease: lease
    given = {"background": background, "executions": executions, "descent": descent}
    leases = parts.setdefault("leases", rows())
    messages = parts.setdefault("messages", Mock())
    messages.guard = alone(Messages, leases=leases).guard
    return alone(Claimer, **{**given, **parts})


def claim_waiting(found: Claimer, here: Batch) -> None:
    """What the dispatcher does with what waits."""
    alone(Dispatcher, context=found.context, claimer=found, messages=found.messages)._claim(here)


def written(leases: Mock) -> list[Change]:
    return [call.args[0] for call in leases.apply.call_args_list]


def batch(
    *waiting: tuple[JobMessage, Lease | None], room: Room, until: datetime | None = None
) -> Batch:
    claims = [
        (one, Claim(row, starts_run=row is None or row.state is not State.RELEASED))
        for one, row in waiting
    ]
    return Batch(stage(), {one.message_id for one, _ in waiting}, until, waiting=claims, room=room)


def released(**changes: Any) -> Lease:
    """Its back-off is over."""
    values = {
        "state": State.RELEASED,
        "settled_attempt": 1,
        "settled_at": NOW - 60 * SECOND,
        "retry_at": NOW - SECOND,
    }
    return running(**{**values, **changes})


def free(slots: int) -> Room:
    return Room(slots=9, free=slots, running=9 - slots)


def test_a_message_whose_slot_was_taken_meanwhile_waits_with_its_row() -> None:
    leases, slots = rows(), Mock()
    leases.apply.side_effect = NoFreeSlotError
    slots.room.return_value = free(0)
    row = released()
    sent = message(first_sent_at=NOW - 999 * SECOND)
    here = batch((sent, row), room=free(1))
    messages = Mock()
    found = claimer(leases=leases, slots=slots, messages=messages)

    claim_waiting(found, here)

    messages.defer.assert_called_once_with(here, [sent])
    assert here.deferred_s == [60.0]  # since its last attempt ended
    assert here.waiting == []


@pytest.mark.parametrize("row", [None, running(state=State.DEAD, settled_at=NOW - 999 * SECOND)])
def test_a_new_run_has_waited_since_it_was_sent(row: Lease | None) -> None:
    here = batch((message(first_sent_at=NOW - 70 * SECOND), row), room=free(0))
    claim_waiting(claimer(), here)
    assert here.deferred_s == [70.0]


@pytest.mark.parametrize("ends_at", [NOW, None])
def test_a_batch_that_is_over_claims_no_more(ends_at: datetime | None) -> None:
    leases = rows()
    here = batch((message(), None), room=free(2), until=ends_at)
    claim_waiting(claimer(leases=leases), here)
    assert leases.apply.call_count == (1 if ends_at is None else 0)


def test_a_row_that_changed_at_its_claim_is_returned_to_be_decided_again() -> None:
    ended = running(state=State.SUCCEEDED)
    leases = rows()
    leases.apply.side_effect = LeaseChangedError(ended)
    here = batch((message("other", "m-2"), None), room=free(2))

    changed = claimer(leases=leases).claim(here.waiting, here)

    assert changed == [(message("other", "m-2"), ended)]


def test_a_claim_that_waited_for_a_slot_is_as_old_as_its_start() -> None:
    """Its wait must not count as the attempt's age."""
    leases = rows()
    here = batch((message(), None), (message("other", "m-2"), released()), room=free(2))
    found = claimer(leases=leases, clock=VirtualClock(NOW + 60 * SECOND))

    found.claim(here.waiting, here)

    attempts = [each.after.attempt for each in written(leases)]
    assert [each.claimed_at for each in attempts] == [NOW + 60 * SECOND] * 2
    assert [each.number for each in attempts] == [1, 2]


def test_after_an_error_of_a_call_for_all_no_message_waits_in_the_function() -> None:
    slots = Mock()
    slots.room.side_effect = TimeoutError
    leases = rows()
    leases.apply.side_effect = NoFreeSlotError
    here = batch((message(), None), room=free(1))
    claim_waiting(claimer(slots=slots, leases=leases), here)
    assert here.waiting == []
    assert here.kept == {"m-1"}


def test_the_free_slots_go_to_retries_and_then_to_new_jobs() -> None:
    """A job that is sent again after its end is a new one."""
    leases, slots = rows(), Mock()
    slots.room.return_value = free(0)
    again = running(key="main#again", state=State.DEAD, settled_at=NOW)
    here = batch(
        (message("again", "m-1"), again),
        (message("new", "m-2"), None),
        (message("retry", "m-3"), released(key="main#retry")),
        room=free(2),
    )

    claim_waiting(claimer(leases=leases, slots=slots), here)

    claimed = [each.after.receive.message_id for each in written(leases)]
    assert claimed == ["m-3", "m-1"]


def test_a_retry_that_another_dispatcher_started_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    due = NOW - 600 * SECOND
    leases = rows(*(released(key=f"main#{name}", retry_at=due) for name in ("slot", "row", "mine")))
    refusals = {"main#slot": NoFreeSlotError(), "main#row": LeaseChangedError(None)}

    def apply(change: Change) -> Lease:
        if error := refusals.get(change.after.key):
            raise error
        return change.after

    leases.apply.side_effect = apply
    executions, slots = Mock(), Mock()
    slots.room.return_value = free(0)
    here = batch(*((message(str(n), f"m-{n}"), None) for n in range(3)), room=free(3))

    claim_waiting(claimer(leases=leases, executions=executions, slots=slots), here)

    (started,) = executions.ensure_started.call_args_list
    assert started.args[0].startswith(key_hash("main#mine"))
    assert "could not start this retry" not in caplog.text


def test_a_retry_whose_root_cannot_be_read_keeps_no_other_back() -> None:
    lineage, slots = Lineage(root="main#newer", parent="main#newer"), Mock()
    child, other = released(key="main#child", lineage=lineage), released(key="main#other")
    leases = rows(*(changed(row, retry_at=NOW - 600 * SECOND) for row in (child, other)))
    leases.load_many.side_effect = [leases.load_many.return_value, Rows({}, {"main#newer"})]
    slots.room.return_value = free(0)
    here = batch(*((message(str(n), f"m-{n}"), None) for n in range(2)), room=free(2))
    claim_waiting(claimer(leases=leases, slots=slots), here)
    keys = [each.after.key for each in written(leases)]
    assert ("main#other" in keys, "main#child" in keys) == (True, False)


@pytest.mark.parametrize(
    ("state", "unseen_for", "is_noted"),
    [
        (State.RELEASED, MISSING / 2, True),
        (State.RELEASED, MISSING / 2 - SECOND, False),
        (State.DEAD, MISSING, False),
    ],
)
def test_that_a_released_jobs_message_was_seen_is_noted_well_before_it_counts_as_missing(
    state: State, unseen_for: timedelta, *, is_noted: bool
) -> None:
    leases = Mock()
    row = changed(
        replace(released(), state=state),
        settled_at=NOW - unseen_for,
        retry_at=NOW - unseen_for,
    )
    here = batch((message(), row), room=free(0))
    claim_waiting(claimer(leases=leases), here)
    assert leases.apply.called is is_noted
    if is_noted:
        ((change,), _) = leases.apply.call_args
        assert (change.before, change.after.receive.seen_at) == (row, NOW)


# How a start goes on when another dispatcher, or an earlier attempt, was there first.


def of_one() -> Batch:
    return Batch(stage(), {"m-1"})


def probe(found: Claimer, row: Lease) -> Batch:
    here = of_one()
    found.probe(message(receive_count=2), row, here)
    return here


def test_of_two_receives_the_later_one_holds_the_message() -> None:
    leases, messages = Mock(), Mock()
    leases.report.side_effect = LeaseChangedError(running(receive_count=3))
    here = probe(claimer(leases=leases, messages=messages), running())
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
        probe(claimer(leases=leases), running())


def test_a_claim_whose_execution_has_closed_is_settled_after_all_claims() -> None:
    executions = Mock()
    executions.ensure_started.return_value = "FAILED"
    here = of_one()
    claimer(executions=executions).claim([(message(), Claim(None, starts_run=True))], here)
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
    claim = Claim(before, starts_run=True)

    claimer(tasks=tasks, leases=leases, messages=messages).claim([(message(), claim)], of_one())

    assert tasks.stop.called is stopped
    assert messages.postpone.called is stopped
    assert leases.apply.called is not stopped


def test_a_run_does_not_wait_for_a_task_whose_end_is_proved() -> None:
    tasks, leases = Mock(), Mock()
    before = changed(running(state=State.DEAD), message_id="m-0", task_arn="arn", is_over=True)
    claim = Claim(before, starts_run=True)
    claimer(tasks=tasks, leases=leases).claim([(message(), claim)], of_one())
    assert not tasks.stop.called
    assert leases.apply.called
