"""Many jobs in a few numbers."""

from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.domain.digest import Spread, digest
from longhaul.domain.history import Attempt
from longhaul.domain.lease import State
from longhaul.domain.timeline import lane
from tests.builders import NOW, running


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [
        ([], Spread(0, 0, 0, 0)),
        ([5], Spread(1, 5, 5, 5)),
        ([4, 1, 3, 2], Spread(4, 2, 4, 4)),
        (range(1, 101), Spread(100, 50, 95, 100)),
    ],
)
def test_a_spread_has_its_middle_its_95th_percentile_and_its_longest(seconds: list[float], wanted: Spread) -> None:
    assert Spread.of(seconds) == wanted


def test_outcomes_retries_and_waits_are_counted() -> None:
    def at(seconds: float) -> timedelta:
        return timedelta(seconds=seconds)

    row = running()
    first = Attempt(
        row.key, "main", row.run, 1, "small", "FARGATE", NOW + at(10), NOW, None, NOW + at(20), NOW + at(50)
    )
    failed = replace(first, kind="failed", state=State.RELEASED)
    again = replace(first, attempt=2, queued_at=NOW + at(50), due_at=NOW + at(80), claimed_at=NOW + at(90))
    again = replace(again, started_at=NOW + at(95), ended_at=NOW + at(200), kind="succeeded", state=State.SUCCEEDED)
    done = replace(row, attempt=2, state=State.SUCCEEDED, settled_attempt=2, settled_at=NOW + at(200))
    found = digest([lane(done, [failed, again]), lane(row, [])], NOW + at(300))
    assert (found.jobs, found.attempts, found.retries) == (2, 2, 1)
    assert found.states == {State.SUCCEEDED: 1, State.RUNNING: 1}
    assert found.wrong == {"failed": 1}
    assert found.waits == Spread(2, 10, 10, 10)
    assert found.back_offs == Spread(1, 30, 30, 30)
    assert found.runs == Spread(2, 30, 105, 105)
