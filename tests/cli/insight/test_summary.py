"""Many jobs in a few numbers."""

from datetime import timedelta

import pytest

from longhaul.cli.insight.summary import Repeated, Spread, repeated, summarize
from longhaul.cli.insight.timeline import lane
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import State
from tests.builders import NOW, changed, record, running


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [
        ([], Spread(0, 0, 0, 0)),
        ([5], Spread(1, 5, 5, 5)),
        ([4, 1, 3, 2], Spread(4, 2, 4, 4)),
        (range(1, 101), Spread(100, 50, 95, 100)),
    ],
)
def test_a_spread_has_median_95th_percentile_and_maximum(
    seconds: list[float], wanted: Spread
) -> None:
    assert Spread.of(seconds) == wanted


def test_outcomes_retries_and_waits_are_counted() -> None:
    def at(seconds: float) -> timedelta:
        return timedelta(seconds=seconds)

    row = running()
    first = record(
        claimed_at=NOW + at(10), queued_at=NOW, started_at=NOW + at(20), ended_at=NOW + at(50)
    )
    failed = changed(first, kind="failed", state=State.RELEASED)
    again = changed(
        first, attempt=2, queued_at=NOW + at(50), due_at=NOW + at(80), claimed_at=NOW + at(90)
    )
    again = changed(
        again,
        started_at=NOW + at(95),
        ended_at=NOW + at(200),
        kind="succeeded",
        state=State.SUCCEEDED,
    )
    done = changed(
        row, attempt=2, state=State.SUCCEEDED, settled_attempt=2, settled_at=NOW + at(200)
    )
    found = summarize([lane(done, [failed, again]), lane(row, [])], NOW + at(300))
    assert (found.jobs, found.attempts, found.retries) == (2, 2, 1)
    assert found.states == {State.SUCCEEDED: 1, State.RUNNING: 1}
    assert found.wrong == {"failed": 1}
    assert found.waits == Spread(2, 10, 10, 10)
    assert found.back_offs == Spread(1, 30, 30, 30)
    assert found.runs == Spread(2, 30, 105, 105)


def test_reasons_that_come_again_are_one_group_whatever_numbers_are_in_them() -> None:
    def wasted(
        minute: int, reason: str, key: str = "main#a", kind: str = "failed"
    ) -> AttemptRecord:
        ended_at = NOW + timedelta(minutes=minute)
        return changed(record(), key=key, ended_at=ended_at, kind=kind, reason=reason,
                       state=State.RELEASED)  # fmt: skip

    found = repeated(
        [
            wasted(3, "no row 17 in part-00004"),
            wasted(1, "no row 5 in part-00001"),
            wasted(2, "no row 5 in part-00001", key="main#b"),
            wasted(4, "no row 5 in part-00001", kind="permanent"),
            wasted(5, "the task 5f0c1d2e3a4b ended"),
            wasted(6, "the task 91d0aa77bb12 ended"),
            wasted(7, "once"),
            record(),
        ]
    )

    assert found == [
        Repeated("failed", "no row 17 in part-00004", 3, 2,
                 NOW + timedelta(minutes=1), NOW + timedelta(minutes=3)),
        Repeated("failed", "the task 91d0aa77bb12 ended", 2, 1,
                 NOW + timedelta(minutes=5), NOW + timedelta(minutes=6)),
    ]  # fmt: skip
