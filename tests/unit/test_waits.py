import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core import backoff, beat
from longhaul.core.settings import SQS_VISIBILITY_CAP_S, LeaseSettings

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


def test_job_of_twelve_hours_needs_fewer_than_two_hundred_beats() -> None:
    age, beats = 0, 0
    while age < 43_200:
        age += beat.interval_s(age, NUMBERS)
        beats += 1
    assert beats < 200


def test_longest_job_stays_within_the_history_limit_of_step_functions() -> None:
    age, beats = 0, 0
    while age < 604_800:
        age += beat.interval_s(age, NUMBERS)
        beats += 1
    assert beats * 9 < 25_000


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
