"""What becomes of a batch's messages, and what is counted of them."""

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from unittest.mock import Mock

import pytest

from longhaul.core.batch import Batch, Messages
from longhaul.core.message import JobMessage
from longhaul.core.metrics import StageMetric
from longhaul.core.pace import MAX_HIDDEN, Pace, Room, deferrals_s
from longhaul.core.ports import Depth
from longhaul.core.settings import LeaseSettings
from tests.builders import NOW, message, stage
from tests.unit.use_cases import alone

SECOND = timedelta(seconds=1)
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


@pytest.mark.parametrize(("until", "is_over"), [(None, False), (NOW, True), (NOW + SECOND, False)])
def test_a_batch_is_over_at_its_end(until: datetime | None, *, is_over: bool) -> None:
    assert Batch(stage(), set(), until).is_over(NOW) is is_over


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
