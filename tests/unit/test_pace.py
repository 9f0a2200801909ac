"""How long a message without a slot is hidden: in proportion to its likely wait."""

import random
from datetime import datetime, timedelta

import pytest

from longhaul.core.pace import UNPACED, Pace, Room, StartRate, deferrals_s
from longhaul.core.settings import LeaseSettings
from tests.builders import NOW

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
