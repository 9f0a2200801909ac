"""AWS's time, from the `Date` of its answers."""

from datetime import datetime, timedelta

import pytest

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
