"""What the dispatcher makes of a batch, whatever its parts do."""

import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.core.background import Threads
from longhaul.core.batch import Batch, Guard
from longhaul.core.claim import CancelWaiting, Claim, Finish
from longhaul.core.dispatch import Dispatcher
from longhaul.core.lease import Lease, Owed, State
from longhaul.core.message import Delivery, Message
from longhaul.core.ports import Rows
from tests.builders import NOW, message, running, stage
from tests.unit.use_cases import alone

SECOND = timedelta(seconds=1)
ENDED = running(state=State.SUCCEEDED, settled_at=NOW, owed=(Owed.DELETE,))


def delivery(body: str) -> Delivery:
    return Delivery("m-1", "handle-m-1-1", 1, NOW, Message(body, {}))


def dispatcher(row: Lease | None = None, **parts: Any) -> Dispatcher:
    """Everything runs at once, in this thread."""
    leases, background = Mock(), Mock()
    messages = parts.setdefault("messages", Mock())
    messages.endings.return_value = []
    leases.survey.return_value = (Rows({row.key: row} if row else {}), Mock())
    background.run_all.side_effect = lambda tasks, **_: [task() for task in tasks]
    claimer = parts.setdefault("claimer", Mock())
    claimer.first.return_value = []
    given = {"leases": leases, "background": background, "guard": alone(Guard, leases=leases)}
    return alone(Dispatcher, **{**given, **parts})


def decided(found: Dispatcher, decision: object) -> list[str]:
    """The messages that are kept when that is decided first."""
    decisions = iter([decision])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "longhaul.core.dispatch.decide_claim",
            lambda row, *_: next(decisions, None) if row else None,
        )
        patch.setattr("longhaul.core.dispatch.read", lambda *_: message())
        return found.dispatch(stage(), [delivery("{}")])


def test_a_batch_without_a_request_reads_no_rows() -> None:
    messages = Mock()
    found = dispatcher(messages=messages)
    found.dispatch(stage(), [delivery("no request")])
    leases: Any = found.context.leases
    assert messages.refuse.call_count == 1
    assert not leases.survey.called


@pytest.mark.parametrize(
    ("covers", "kept"), [(True, []), (False, ["m-1"])], ids=["covered", "sent after the cancel"]
)
def test_a_cancelled_wait_ends_and_takes_the_message_that_it_covers(
    kept: list[str], *, covers: bool
) -> None:
    finisher = Mock()
    waiting = running(state=State.RELEASED, lineage=None)
    found = dispatcher(waiting, finisher=finisher)
    assert decided(found, CancelWaiting(waiting, covers=covers)) == kept
    leases: Any = found.context.leases
    (change,) = leases.apply.call_args.args
    assert (change.before, change.after.state) == (waiting, State.CANCELLED)
    assert finisher.finish.called is covers


@pytest.mark.parametrize("has_place", [True, False])
def test_a_cancelled_job_keeps_its_place_in_the_join(*, has_place: bool) -> None:
    descent, place, sent = Mock(), Mock(), Mock()
    descent.proven_lineage.return_value = sent
    waiting = running(state=State.RELEASED, lineage=place if has_place else None)
    found = dispatcher(waiting, descent=descent)
    decided(found, CancelWaiting(waiting, covers=True))
    leases: Any = found.context.leases
    assert leases.apply.call_args.args[0].after.lineage is (place if has_place else sent)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    ("after", "kept", "is_postponed"),
    [
        (replace(ENDED, owed=()), [], False),
        (ENDED, ["m-1"], True),
        (running(state=State.RELEASED), ["m-1"], None),
    ],
    ids=["nothing is owed", "something is owed", "it runs again"],
)
def test_a_message_of_an_ended_job_goes_when_nothing_is_owed(
    after: Lease, kept: list[str], *, is_postponed: bool | None, own: bool
) -> None:
    finisher, messages = Mock(), Mock()
    finisher.finish.return_value = after
    found = dispatcher(ENDED, finisher=finisher, messages=messages)
    # What is not its own is decided on again, which decides nothing here.
    assert decided(found, Finish(ENDED, own=own)) == (kept if own else ["m-1"])
    if is_postponed is None:  # a void commit has set the visibility of its own message
        is_postponed = not own
    assert messages.postpone.called is is_postponed
    if is_postponed:
        assert messages.postpone.call_args.args[1:] == (message(), 60)


@pytest.mark.parametrize(("ends_at", "is_done"), [(NOW, False), (NOW + SECOND, True)])
def test_nothing_slow_begins_when_the_batch_is_over(ends_at: datetime, *, is_done: bool) -> None:
    finisher = Mock()
    finisher.finish.return_value = replace(ENDED, owed=())
    found = dispatcher(ENDED, finisher=finisher)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("longhaul.core.dispatch.read", lambda *_: message())
        patch.setattr("longhaul.core.dispatch.decide_claim", lambda *_: Finish(ENDED, own=True))
        found.dispatch(stage(), [delivery("{}")], ends_at)
    assert finisher.finish.called is is_done


def test_of_jobs_that_ended_one_at_a_time_is_finished() -> None:
    """Two of the largest lists and manifests that tasks may write do not fit into its memory."""
    working, most = 0, 0

    def finish(ended: Lease, _: object) -> Lease:
        nonlocal working, most
        working += 1
        most = max(most, working)
        time.sleep(0.05)
        working -= 1
        return replace(ended, owed=())

    finisher = Mock()
    finisher.finish.side_effect = finish
    found = dispatcher(ENDED, finisher=finisher, background=Threads())
    sent = [replace(message(), message_id=f"m-{n}", key=f"main#{n}") for n in range(4)]
    messages = iter(sent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("longhaul.core.dispatch.read", lambda *_: next(messages))
        patch.setattr("longhaul.core.dispatch.decide_claim", lambda *_: Finish(ENDED, own=True))
        deliveries = [replace(delivery("{}"), message_id=each.message_id) for each in sent]
        assert found.dispatch(stage(), deliveries) == []
    assert (finisher.finish.call_count, most) == (4, 1)


def test_what_waits_behind_something_slow_sees_the_slots_of_then() -> None:
    """A publication may take minutes, in which slots become free."""
    slots, claimer, finisher, messages = (Mock() for _ in range(4))
    finisher.finish.return_value = replace(ENDED, owed=())
    messages.renew_if_worn_out.return_value = False
    found = dispatcher(ENDED, slots=slots, claimer=claimer, finisher=finisher, messages=messages)
    decisions = iter([Finish(ENDED, own=False), Claim(running(), replaces=ENDED)])
    rooms = []

    def first(batch: Batch) -> list[object]:
        rooms.append(batch.room)
        batch.waiting.clear()
        return []

    claimer.first.side_effect = first
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("longhaul.core.dispatch.read", lambda *_: message())
        patch.setattr("longhaul.core.dispatch.decide_claim", lambda *_: next(decisions))
        found.dispatch(stage(), [delivery("{}")])
    assert rooms[1:] == [slots.room.return_value]
