"""What the dispatcher makes of a batch, whatever its parts do."""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.core.background import Threads
from longhaul.core.claim import CancelWaiting, Claim, Finish
from longhaul.core.dead_letter import Reason
from longhaul.core.dispatch import Batch, Dispatcher, Messages
from longhaul.core.lease import Lease, Owed, State
from longhaul.core.message import Delivery, JobMessage, Message
from longhaul.core.metrics import StageMetric
from longhaul.core.pace import MAX_HIDDEN, Pace, Room, deferrals_s
from longhaul.core.ports import Depth, Rows
from longhaul.core.settings import LeaseSettings
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
    guarding = alone(Messages, leases=leases)
    messages.guard, messages.guard_reading = guarding.guard, guarding.guard_reading
    leases.survey.return_value = (Rows({row.key: row} if row else {}), Mock())
    background.run_all.side_effect = lambda tasks, **_: [task() for task in tasks]
    claimer = parts.setdefault("claimer", Mock())
    claimer.first.return_value = []
    given = {"leases": leases, "background": background}
    return alone(Dispatcher, **{**given, **parts})


def decided(
    found: Dispatcher,
    *decisions: object,
    sent: Sequence[JobMessage] = (message(),),
    ends_at: datetime | None = None,
) -> list[str]:
    """The messages that are kept when that is decided of them, one after the other."""
    decided_on, read = iter(decisions), iter(sent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("longhaul.core.dispatch.decide_claim", lambda *_: next(decided_on, None))
        patch.setattr("longhaul.core.dispatch.read", lambda *_: next(read))
        deliveries = [replace(delivery("{}"), message_id=each.message_id) for each in sent]
        return found.dispatch(stage(), deliveries, ends_at)


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
    decided(found, Finish(ENDED, own=True), ends_at=ends_at)
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
    assert decided(found, *[Finish(ENDED, own=True)] * 4, sent=sent) == []
    assert (finisher.finish.call_count, most) == (4, 1)


def test_what_waits_behind_something_slow_sees_the_slots_of_then() -> None:
    """A publication may take minutes, in which slots become free."""
    slots, claimer, finisher, messages = (Mock() for _ in range(4))
    finisher.finish.return_value = replace(ENDED, owed=())
    messages.renew_if_worn_out.return_value = False
    found = dispatcher(ENDED, slots=slots, claimer=claimer, finisher=finisher, messages=messages)
    rooms = []

    def first(batch: Batch) -> list[object]:
        rooms.append(batch.room)
        batch.waiting.clear()
        return []

    claimer.first.side_effect = first
    decided(found, Finish(ENDED, own=False), Claim(ENDED, starts_run=False))
    assert rooms[1:] == [slots.room.return_value]


# What becomes of a batch's messages, and what is counted of them.


FULL = Room(slots=4, free=0, running=4, pace=Pace(NOW, 100.0))
"""A claim every 100 seconds."""


class Longest(random.Random):
    """Shortens no wait."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def wait_s(likely_wait_s: float) -> int:
    (seconds,) = deferrals_s(1, likely_wait_s, LeaseSettings(), Longest())
    return seconds


def deferred(depth: Depth, messages: list[JobMessage]) -> list[int]:
    """The seconds for which each message is hidden."""
    queue = Mock()
    queue.depth.return_value = depth
    batch = Batch(stage(), {each.message_id for each in messages}, room=FULL)
    alone(Messages, queue=queue, rng=Longest()).defer(batch, messages)
    (_, hidden), _ = queue.set_visibility_many.call_args
    assert isinstance(hidden, Mapping)
    return [hidden[each.receipt_handle] for each in messages]


def waiting(number: int) -> JobMessage:
    return message(f"job-{number}", f"m-{number}", receipt_handle=f"handle-{number}")


def test_a_batch_measures_what_it_did() -> None:
    assert Batch(stage(), set()).measured() == {}
    batch = Batch(
        stage(),
        set(),
        started=["a", "b"],
        dead_lettered=["c"],
        deferred_s=[3.0, 9.0, 4.0],
        rarely_seen=["d", "e", "f"],
    )
    assert batch.measured() == {
        StageMetric.STARTED: 2,
        StageMetric.DEAD_LETTERED: 1,
        StageMetric.OLDEST_WAITING: 9.0,
        StageMetric.NEAR_RETENTION: 3,
    }


def test_a_message_that_was_due_a_moment_ago_is_visible_at_once() -> None:
    queue = Mock()
    alone(Messages, queue=queue).postpone(Batch(stage(), set()), waiting(1), -3)
    queue.set_visibility.assert_called_once_with(stage().queue_url, "handle-1", 0)


def test_a_message_is_hidden_for_a_part_of_its_likely_wait() -> None:
    # 26 messages are not visible or are; four of them are of jobs that run.
    assert deferred(Depth(visible=6, hidden=20), [waiting(1)]) == [wait_s(22 * 100)]
    # A depth that is late knows less than the batch.
    few = Depth(visible=0, hidden=0)
    assert deferred(few, [waiting(n) for n in range(60)]) == [wait_s(60 * 100)] * 60


def test_with_very_many_hidden_messages_the_others_stay_nearly_visible() -> None:
    for hidden, likely_wait_s in [(MAX_HIDDEN - 1, MAX_HIDDEN * 100), (MAX_HIDDEN, 0)]:
        assert deferred(Depth(visible=5, hidden=hidden), [waiting(1)]) == [wait_s(likely_wait_s)]


# One message's error leaves the others of its batch alone, and ends in a dead letter at last.


def failing(batch: Batch, row: Lease | None, **parts: Any) -> Messages:
    """Whatever is done for the message fails, for the last time."""
    leases, giving_up = parts.pop("leases", Mock()), Mock()
    leases.load.return_value = row
    giving_up.is_due.return_value = True
    messages = alone(Messages, **{"leases": leases, "giving_up": giving_up, **parts})
    with messages.guard(batch, message()):
        raise ValueError
    return messages


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
    send: Any = failing(batch, row, requests=requests).giving_up.send
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
