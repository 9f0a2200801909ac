"""Clocks: ours, AWS's by the `Date` of its answers, and durations as people write them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.clients import SystemClock
from longhaul.core.durations import format_duration, parse_duration_s
from longhaul.core.store.records import AwsTime
from simulation.aws.clock import VirtualClock
from tests.builders import NOW

DATED = {"ResponseMetadata": {"HTTPHeaders": {"date": "Fri, 02 Jan 2026 03:04:05 GMT"}}}
"""At NOW, in whole seconds."""


def said_by(host: datetime, later_s: float = 0) -> datetime:
    """The time by a host's clock that hears of NOW when it shows `host`."""
    clock = VirtualClock(host)
    time = AwsTime(clock)
    time.heard(DATED)
    clock.advance(later_s)
    return time.now()


@pytest.mark.parametrize("fraction_s", [0, 0.5, 1.999])
def test_clock_that_agrees_with_the_answer_is_the_finer_one(fraction_s: float) -> None:
    host = NOW + timedelta(seconds=fraction_s)
    assert said_by(host) == host


@pytest.mark.parametrize("wrong_s", [-120, -0.001, 2, 120, 86_400])
def test_clock_that_is_wrong_is_set_to_the_answers_second(wrong_s: float) -> None:
    assert said_by(NOW + timedelta(seconds=wrong_s)) == NOW
    assert said_by(NOW + timedelta(seconds=wrong_s), 90) == NOW + timedelta(seconds=90)


def test_answer_without_a_date_changes_nothing() -> None:
    time = AwsTime(VirtualClock(NOW))
    time.heard({})
    assert time.now() == NOW


# The real clock.


def test_the_time_is_aware_utc_in_whole_milliseconds_as_rows_keep_it() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    times = [SystemClock().now() for _ in range(20)]
    assert {time.tzinfo for time in times} == {UTC}
    assert {time.microsecond % 1000 for time in times} == {0}
    assert before <= min(times) <= max(times) <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("6h", 21_600),
        ("2d", 172_800),
        ("1h30m", 5_400),
        ("1d1h1m1s", 90_061),
    ],
)
def test_duration_text_is_parsed_to_seconds(text: str, seconds: int) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0s", "90", "s", "1.5h", "-5m", "5 m", "30m1h", "1h\n", "\u0661h", "9" * 20 + "s"]
)
def test_invalid_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 90s"):
        parse_duration_s(text)


@given(st.integers(min_value=1, max_value=604_800))
def test_formatted_duration_parses_back_to_the_same_seconds(seconds: int) -> None:
    assert parse_duration_s(format_duration(seconds)) == seconds


def test_part_of_a_second_is_no_second() -> None:
    assert format_duration(0.9) == "0s"
