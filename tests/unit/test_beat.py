import math
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.core.beat import (
    BEATS_KEPT,
    Beat,
    End,
    Extend,
    Kill,
    beaten,
    decide_beat,
    interval_s,
    least_stall_timeout_s,
    longest_report_wait_s,
    report_overdue_s,
    report_wait_s,
)
from longhaul.core.errors import LeaseChangedError
from longhaul.core.heartbeat import Heartbeat
from longhaul.core.lease import Lease, State
from longhaul.core.settings import LeaseSettings
from tests.builders import NOW, changed, running, there
from tests.unit.use_cases import alone

ATTEMPT = running().id


def decide(lease: Lease | None, age_s: float) -> Beat:
    return decide_beat(lease, ATTEMPT, LeaseSettings(), NOW + timedelta(seconds=age_s))


def alive(age_s: float, **changes: object) -> Lease:
    return changed(running(), **{"progress_at": NOW + timedelta(seconds=age_s - 5), **changes})


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


HUNG = alive(905, reported_at=after(1_790))
SILENT = alive(905, reported_at=after(900), beat_ages_s=(800, 960))
IN_AN_OUTAGE = alive(905, beat_ages_s=(800, 959))
AFTER_THE_OUTAGE = beaten(IN_AN_OUTAGE, after(2_400), NOW)
BEATS_ALONE = beaten(running(), after(15), NOW)
STARTS_LATE = beaten(running(), after(3_600), NOW)
NO_PROGRESS = Kill("JobStalled", "no progress for 15m (stall_timeout 15m)")
NO_REPORT = Kill("JobStalled", "no report for 15m (stall_timeout 15m)")
NO_SIGN = Kill("JobStalled", "the task gave no sign of life within 10m")
DECISIONS: list[tuple[str, Lease, float, object]] = [
    (
        "a hand-over depends on the age of the receive and not of the job",
        alive(50_000, received_at=after(41_000)),
        50_000,
        Extend("handle-m-1-1", visibility_s=435, wait_s=300),
    ),
    ("progress that is not overdue", HUNG, 1_799, Extend),
    ("no progress for the stall timeout", HUNG, 1_800, NO_PROGRESS),
    ("a report that is not overdue", SILENT, 1_799, Extend),
    ("no report for the stall timeout", SILENT, 1_800, NO_REPORT),
    (
        "a runner whose version does not say when it reports",
        alive(905, beat_ages_s=(800, 960)),
        1_800,
        NO_PROGRESS,
    ),
    (
        "a row that takes no reports",
        IN_AN_OUTAGE,
        2_400,
        Extend("handle-m-1-1", visibility_s=79, wait_s=15),
    ),
    (
        "a row that took none since the last",
        alive(905, reported_at=after(1_000), beat_ages_s=(970,)),
        1_800,
        Extend,
    ),
    ("after an outage a report may be on its way", AFTER_THE_OUTAGE, 2_459, Extend),
    ("after an outage none came", AFTER_THE_OUTAGE, 2_460, Kill),
    ("a task that may still start", BEATS_ALONE, 614, Extend),
    ("a task without a sign of life", BEATS_ALONE, 615, NO_SIGN),
    ("an execution that has yet to start", running(), 3_600, Extend),
    ("one that starts late has the whole start timeout", STARTS_LATE, 4_199, Extend),
    ("one that starts late, and no longer", STARTS_LATE, 4_200, Kill),
    # Its last report is not overdue: the work stands still, not the runner.
    ("a stall by the runner's own word", alive(905, reported_at=after(1_741)), 1_800, NO_PROGRESS),
    ("a stall, and the report is overdue", alive(905, reported_at=after(1_740)), 1_800, Extend),
    ("handed over", alive(20, receipt_handle=None), 20, Extend(None, visibility_s=79, wait_s=15)),
    (
        "handed over long ago",
        alive(41_400, receipt_handle=None),
        41_400,
        Extend(None, visibility_s=435, wait_s=300),
    ),
    (
        "the time of the receive is not known",
        alive(20, received_at=None),
        20,
        Extend(None, visibility_s=79, wait_s=15),
    ),
    # The next beat comes after 15 s. It may come a quarter late, and 20 s on top.
    *(
        (
            f"a message that shows in {left_s} s",
            alive(30, beats=1, lease_expires_at=after(30 + left_s)),
            30,
            Extend(handle, visibility_s, wait_s=15),
        )
        for left_s, handle, visibility_s in (
            (39, None, 39),
            (38, "handle-m-1-1", 79),
            (-1, "handle-m-1-1", 79),
        )
    ),
]


@pytest.mark.parametrize(
    ("row", "age_s", "decision"), [pytest.param(*each, id=name) for name, *each in DECISIONS]
)
def test_a_beat_extends_the_message_or_ends_the_task(
    row: Lease, age_s: float, decision: object
) -> None:
    found = decide(row, age_s)
    assert decision in (found, type(found))


def test_many_beats_without_a_sign_of_life_are_stalled() -> None:
    """The first is no longer known, and the latest are all of the last minutes."""
    row = running()
    for second in range(600 - BEATS_KEPT - 1, 600):
        row = beaten(row, NOW + timedelta(seconds=second), NOW)
    assert isinstance(decide(row, 600), Kill)


def test_beat_is_stored_with_its_age_rounded_down_and_never_negative() -> None:
    once = beaten(running(), NOW + timedelta(seconds=15.9), NOW)
    assert (once.attempt.beats, once.attempt.beat_ages_s) == (1, (15,))
    # The clock of the claiming function was ahead.
    assert beaten(running(), NOW - timedelta(seconds=2), NOW).attempt.beat_ages_s == (0,)


def test_attempt_keeps_the_times_of_its_last_sixty_beats() -> None:
    row = running()
    for age_s in range(62):
        row = beaten(row, NOW + timedelta(seconds=age_s), NOW)
    assert row.attempt.beats == 62
    assert row.attempt.beat_ages_s == tuple(range(2, 62))


def killed_after(stall_timeout_s: int, timing: LeaseSettings, stuck_at_s: float) -> float | None:
    """Age at which a beat ends an attempt that works until then; None: not within 20 minutes.

    While it works it beats as its age asks for, and not more often.
    """
    row = changed(running(), stall_timeout_s=stall_timeout_s)
    look_s, beat_s, reported_s = 0.0, float(timing.beat_floor_s), -math.inf
    while beat_s < stuck_at_s + 1_200:
        if look_s <= beat_s:
            if look_s - reported_s >= longest_report_wait_s(timing, stall_timeout_s):
                reported_s = look_s
                row = changed(
                    row,
                    progress_at=NOW + timedelta(seconds=min(look_s, stuck_at_s)),
                    reported_at=NOW + timedelta(seconds=look_s),
                )
            look_s += timing.progress_period_s
            continue
        now = NOW + timedelta(seconds=beat_s)
        decision = decide_beat(row, ATTEMPT, timing, now)
        if isinstance(decision, Kill):
            return beat_s
        assert not isinstance(decision, End)
        row = beaten(row, now, now)
        # Step Functions takes some time: beats drift past the reports.
        if beat_s < stuck_at_s:
            assert decision.wait_s == interval_s(beat_s, timing)
        beat_s += decision.wait_s + 0.012
    return None


@pytest.mark.parametrize("progress_period_s", [1, 5, 30, 60])
@pytest.mark.parametrize("longer_s", [0, 60, 300])
def test_attempt_that_reports_is_ended_when_it_is_stuck_and_not_before(
    longer_s: int, progress_period_s: float
) -> None:
    timing = LeaseSettings(progress_period_s=progress_period_s)
    stall_timeout_s = least_stall_timeout_s(timing) + longer_s
    killed_s = there(killed_after(stall_timeout_s, timing, stuck_at_s=4_000))
    late_s = timing.beat_ceiling_s + longest_report_wait_s(timing, stall_timeout_s)
    assert 0 < killed_s - 4_000 <= stall_timeout_s + late_s + timing.beat_floor_s


def test_wait_between_reports_grows_with_the_age_up_to_a_quarter_of_what_counts_as_silence() -> (
    None
):
    timing = LeaseSettings()
    assert [report_wait_s(age, timing, 900) for age in (0, 50, 100, 150, 90_000)] == [
        5, 5, 10, 15, 15,
    ]  # fmt: skip
    assert [report_wait_s(age, timing, 900, has_news=False) for age in (0, 100)] == [15, 15]
    assert [report_wait_s(age, timing, 60) for age in (0, 100)] == [5, 7.5]


@pytest.mark.parametrize(
    ("stall_timeout_s", "age_s"), list(product((40, 60, 120, 900, 86_400), (0, 60, 3_600, 604_800)))
)
def test_three_reports_in_a_row_may_be_lost_before_a_runner_counts_as_silent(
    stall_timeout_s: int, age_s: int
) -> None:
    wait_s = report_wait_s(age_s, LeaseSettings(), stall_timeout_s, has_news=False)
    assert 4 * wait_s <= report_overdue_s(stall_timeout_s)


# A beat whose attempt settles, or loses its row, while the message is extended.


ROW = changed(running(), task_arn="arn:task", progress_at=NOW)
RELEASED = replace(
    ROW,
    state=State.RELEASED,
    settled_attempt=1,
    settled_at=NOW,
    retry_at=NOW + timedelta(seconds=7),
)


@pytest.mark.parametrize(
    ("row", "current", "hidden_s"),
    [
        (ROW, RELEASED, [7]),
        (ROW, None, []),
        (ROW, changed(RELEASED, receipt_handle="newer"), []),
        (ROW, replace(RELEASED, state=State.SUCCEEDED), []),
        (ROW, replace(ROW, run=ROW.run + 1), []),
        (changed(ROW, receipt_handle=None), changed(RELEASED, receipt_handle=None), []),
    ],
    ids=["released", "gone", "received again", "succeeded", "a new run", "handed over"],
)
def test_only_the_back_off_that_a_beat_has_overwritten_is_restored(
    row: Lease, current: Lease | None, hidden_s: list[int]
) -> None:
    leases, queue = Mock(), Mock()
    leases.load.return_value = row
    leases.report.side_effect = LeaseChangedError(current)
    queue.set_visibility.return_value = "extended"
    beat = alone(Heartbeat, leases=leases, queue=queue)

    assert beat.beat(ROW.id) == {"next": "end", "wait_s": 0, "cause": ""}

    extends = 1 if row.receive.receipt_handle else 0
    calls: list[Any] = [call.args[2] for call in queue.set_visibility.call_args_list]
    assert calls[extends:] == hidden_s
