"""How long a message without a slot is hidden: in proportion to its likely wait."""

import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.cli.display.job import why_of
from longhaul.core import backoff, beat
from longhaul.core.lease import Lease, State
from longhaul.core.pace import UNPACED, Pace, Room, SlotUse, StartRate, deferrals_s
from longhaul.core.settings import SQS_VISIBILITY_CAP_S, LeaseSettings
from longhaul.operations.view import JobStatus, Wait, job_status, wait_of
from tests.builders import NOW, running, settings

TIMING = LeaseSettings()


def room(slots: int, gap_s: float) -> Room:
    return Room(slots=slots, free=0, running=slots, pace=Pace(NOW, gap_s))


class Extreme(random.Random):
    """Draws one end of each range."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.draws = 0

    def uniform(self, a: float, b: float) -> float:
        self.draws += 1
        return (a, b)[self.place]


def test_stage_without_a_claim_so_far_has_no_gap() -> None:
    empty = Room(slots=4, free=4, running=0)

    assert empty.gap_s(NOW) == 0
    assert empty.after(3, NOW) == Pace(NOW, 0)


@pytest.mark.parametrize(
    ("slots", "claims", "later_s", "gap_s"),
    [
        (4, 1, 30, 11.0),  # a twentieth of the way from 10 to 30
        (40, 1, 30, 10.5),  # a fortieth: as many claims as there are slots
        (4, 2, 60, 11.95),  # two gaps of 30, one after the other
        (4, 1, -5, 9.5),  # a clock that is behind: no gap is negative
    ],
)
def test_claim_moves_the_mean_gap_towards_the_last_one(
    slots: int, claims: int, later_s: float, gap_s: float
) -> None:
    now = NOW + timedelta(seconds=later_s)

    after = room(slots, 10).after(claims, now)

    assert (after.claimed_at, after.gap_s) == (now, pytest.approx(gap_s))


@pytest.mark.parametrize(("silent_s", "gap_s"), [(0, 10), (40, 10), (60, 15)])
def test_full_stage_without_a_claim_for_long_is_slower_than_its_mean(
    silent_s: float, gap_s: float
) -> None:
    assert room(4, 10).gap_s(NOW + timedelta(seconds=silent_s)) == gap_s


@pytest.mark.parametrize(
    ("likely_wait_s", "least", "most"),
    [
        (0, 8, 15),  # defer_min_s
        (300, 8, 15),
        (2_000, 50, 100),  # a twentieth
        (36_000, 900, 1_800),  # defer_max_s
        (1_000_000, 900, 1_800),
    ],
)
def test_message_is_hidden_for_a_twentieth_of_its_wait_and_jittered_down_to_half_of_that(
    likely_wait_s: float, least: int, most: int
) -> None:
    for place, seconds in enumerate((least, most)):
        assert deferrals_s(2, likely_wait_s, TIMING, Extreme(place)) == [seconds, seconds]


def test_only_messages_that_are_hidden_for_the_longest_time_stay_together() -> None:
    apart, together = Extreme(0), Extreme(0)

    deferrals_s(3, 35_999, TIMING, apart)
    deferrals_s(3, 36_000, TIMING, together)

    assert (apart.draws, together.draws) == (3, 1)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_a_throttle_halves_the_rate_once_a_second_and_each_second_adds_one() -> None:
    rate = StartRate(20, NOW)
    assert rate.at(at(10)) == 30
    assert rate.slowed(at(0.9)) is rate
    assert rate.slowed(at(4)) == StartRate(12, at(4))
    assert StartRate(1, NOW).slowed(at(1)) == StartRate(1, at(1))
    assert StartRate(20, NOW).slowed(at(9_999)) == StartRate(UNPACED / 2, at(9_999))


@pytest.mark.parametrize(
    ("claimed_s", "now_s", "starts"), [(0, 0, 0), (0, 0.5, 10), (0, 1, 21), (0, 5, 25), (3, 1, 0)]
)
def test_as_many_start_as_the_time_since_the_last_claim_allows_and_a_seconds_at_most(
    claimed_s: float, now_s: float, starts: int
) -> None:
    assert StartRate(20, NOW).starts(at(claimed_s), at(now_s)) == starts


NUMBERS = LeaseSettings()


@pytest.mark.parametrize(
    ("age_s", "interval"), [(0, 15), (150, 15), (151, 16), (600, 60), (3_000, 300), (86_400, 300)]
)
def test_interval_is_a_tenth_of_the_age_between_floor_and_ceiling(
    age_s: float, interval: int
) -> None:
    assert beat.interval_s(age_s, NUMBERS) == interval


@pytest.mark.parametrize(
    ("interval", "held_s", "visibility"),
    [(15, 0, 79), (300, 0, 435), (300, 43_000, 195), (300, 43_195, 0), (300, 50_000, 0)],
)
def test_visibility_covers_a_late_beat_and_stays_below_the_cap(
    interval: int, held_s: float, visibility: int
) -> None:
    assert beat.visibility_s(interval, held_s, NUMBERS) == visibility


@given(st.integers(min_value=0, max_value=60_000))
def test_no_extension_reaches_beyond_twelve_hours_from_the_receive(held_s: int) -> None:
    visibility = beat.visibility_s(beat.interval_s(held_s, NUMBERS), held_s, NUMBERS)
    assert visibility == 0 or held_s + visibility < SQS_VISIBILITY_CAP_S


@given(st.integers(min_value=1, max_value=1_000), st.integers())
def test_back_off_never_exceeds_its_ceiling(tries: int, seed: int) -> None:
    wait = backoff.back_off_s(tries, NUMBERS, random.Random(seed))
    assert 0 <= wait <= min(900, 10 * 2 ** min(tries - 1, 20))


class Highest(random.Random):
    def uniform(self, a: float, b: float) -> float:
        assert a == 0
        return b


@pytest.mark.parametrize(
    ("tries", "most_s"), [(0, 0), (1, 10), (2, 20), (3, 40), (7, 640), (8, 900), (10_000, 900)]
)
def test_back_off_doubles_with_each_try_up_to_its_cap(tries: int, most_s: int) -> None:
    assert backoff.back_off_s(tries, NUMBERS, Highest()) == most_s


def test_a_base_of_zero_is_no_back_off() -> None:
    assert backoff.back_off_s(9, LeaseSettings(backoff_base_s=0), Highest()) == 0


@pytest.mark.parametrize(
    ("waited_s", "most_s"), [(0, 10), (9, 10), (300, 300), (900, 900), (86_400, 900)]
)
def test_wait_for_a_place_is_at_most_the_time_waited_so_far(waited_s: float, most_s: int) -> None:
    assert backoff.unplaced_wait_s(waited_s, NUMBERS, Highest()) == most_s


@pytest.mark.parametrize(("held_s", "extends"), [(0, False), (75, False), (75.1, True)])
def test_claim_extends_a_message_that_would_show_before_the_first_beat(
    held_s: float, *, extends: bool
) -> None:
    # Visible after 120 s; the first beat comes after 15 s, and may be 30 s late.
    assert beat.must_extend(15, held_s) is extends


def test_extension_keeps_five_seconds_of_margin_to_the_cap() -> None:
    assert beat.MAX_VISIBILITY_S == SQS_VISIBILITY_CAP_S - 5


# What a job between two attempts waits for, and how that reads.


FREE, FULL = SlotUse(running=3, slots=4), SlotUse(running=4, slots=4)
PAUSED = replace(FREE, paused_at=NOW)
MINUTE = timedelta(minutes=1)


def released(due: timedelta = -MINUTE, **changes: Any) -> Lease:
    error = {"last_class": "failed", "last_error": "exit code 1"}
    return running(state=State.RELEASED, retry_at=NOW + due, **error, **changes)


def status(row: Lease, use: SlotUse) -> JobStatus:
    return job_status(row, settings(), Mock(), NOW, {row.stage: use})


@pytest.mark.parametrize(
    ("row", "use", "wait", "why"),
    [
        (released(1.5 * MINUTE), FULL, Wait("back-off", NOW + 1.5 * MINUTE), "again in 1m30s; f"),
        # A pause comes before all but the end, and has none.
        (released(MINUTE), PAUSED, Wait("pause"), "waits for its stage, which is paused: "),
        (released(), FULL, Wait("slot"), "waits for a slot: all of its stage are taken; failed: "),
        (
            released(),
            FREE,
            Wait("message", NOW - MINUTE + timedelta(hours=6)),
            "waits for its message; were it lost, a copy is sent after 2026-01-02 09:03:05Z; f",
        ),
        (running(), FULL, None, ""),
        (running(state=State.SUCCEEDED), FULL, None, ""),
    ],
)
def test_it_is_told_with_its_end(row: Lease, use: SlotUse, wait: Wait | None, why: str) -> None:
    assert wait_of(row, use, LeaseSettings(), NOW) == wait
    assert why_of(status(row, use), NOW).startswith(why)


def test_a_message_that_was_seen_since_is_replaced_later() -> None:
    row = released()
    seen = replace(row, receive=replace(row.receive, seen_at=NOW))
    hours = timedelta(hours=6)
    assert wait_of(seen, FREE, LeaseSettings(), NOW) == Wait("message", NOW + hours)
    assert wait_of(seen, None, LeaseSettings(), NOW) == Wait("message", NOW + hours)
