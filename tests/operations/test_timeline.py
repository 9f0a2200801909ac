"""A job's life as a lane."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from longhaul.core.history import AttemptRecord
from longhaul.core.lease import Lease, State
from longhaul.operations.timeline import Lane, lane, outcome, span
from tests.builders import NOW, changed, record, running


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def attempt(n: int = 1, **changes: object) -> AttemptRecord:
    return record(n, **{"claimed_at": at(10), "queued_at": at(0), **changes})


def told(shown: Lane) -> list[tuple[str, float, float | None]]:
    """The kind of each, and the seconds from NOW to its begin and end."""
    return [
        (
            each.kind.value,
            (each.begin - NOW).total_seconds(),
            (each.end - NOW).total_seconds() if each.end else None,
        )
        for each in shown.segments
    ]


FAILED = attempt(started_at=at(40), ended_at=at(100), kind="failed", state=State.RELEASED)
SECOND = attempt(2, queued_at=at(100), due_at=at(130), claimed_at=at(135), started_at=at(150))
FIRST = [("waiting", 0, 10), ("starting", 10, 40), ("running", 40, 100)]
RELEASED = replace(
    running(), state=State.RELEASED, settled_attempt=1, settled_at=at(100), retry_at=at(130)
)
NEVER = attempt(ended_at=at(70), kind="interrupted", state=State.RELEASED)
REDRIVEN = attempt(2, queued_at=at(5_000), claimed_at=at(5_010), started_at=at(5_020))


def test_a_retry_is_a_wait_an_attempt_a_back_off_and_a_running_attempt() -> None:
    shown = lane(changed(running(), attempt=2), [FAILED, SECOND])
    assert told(shown) == [
        *FIRST,
        ("backing off", 100, 130),
        ("waiting", 130, 135),
        ("starting", 135, 150),
        ("running", 150, None),
    ]
    assert shown.ended_at is None
    assert (shown.waited_s(at(200)), shown.ran_s(at(200))) == (45, 155)
    assert span([shown], at(200)) == (at(0), at(200))


@pytest.mark.parametrize(
    ("row", "attempts", "found"),
    [
        pytest.param(
            RELEASED,
            [FAILED],
            [*FIRST, ("backing off", 100, 130), ("waiting", 130, None)],
            id="a released job backs off and then waits without end",
        ),
        pytest.param(
            running(),
            [NEVER],
            [("waiting", 0, 10), ("starting", 10, 70)],
            id="a task that never reported is starting until its end",
        ),
        pytest.param(
            changed(running(), attempt=2),
            [FAILED, REDRIVEN],
            [
                *FIRST,
                ("waiting", 5_000, 5_010),
                ("starting", 5_010, 5_020),
                ("running", 5_020, None),
            ],
            id="the time between two runs is no wait",
        ),
        pytest.param(  # a corrected resubmission, or clocks that differ
            running(),
            [changed(SECOND, claimed_at=at(120))],
            [("backing off", 100, 120), ("starting", 120, 150), ("running", 150, None)],
            id="an early claim after a back-off has no wait",
        ),
    ],
)
def test_a_lane_shows_each_wait_and_each_attempt(
    row: Lease, attempts: list[AttemptRecord], found: list[tuple[str, float, float | None]]
) -> None:
    assert told(lane(row, attempts)) == found


def test_an_ended_job_has_an_end_also_when_cancelled_while_waiting() -> None:
    cancelled = replace(running(), state=State.CANCELLED, settled_attempt=1, settled_at=at(120))
    assert lane(cancelled, [FAILED]).ended_at == at(120)
    assert told(lane(cancelled, [FAILED]))[3:] == [("waiting", 100, 120)]
    assert told(lane(replace(cancelled, retry_at=at(150)), [FAILED]))[3:] == [
        ("backing off", 100, 120)
    ]
    running_then = replace(FAILED, ended_at=at(120), kind="cancelled", state=State.CANCELLED)
    assert len(lane(replace(cancelled, retry_at=at(50)), [running_then]).segments) == 3
    assert span([lane(cancelled, [FAILED])], at(500)) == (at(0), at(120))


def test_a_mark_before_any_claim_has_no_segments() -> None:
    empty = lane(changed(running(), attempt=0, state=State.RELEASED), [])
    assert (empty.segments, span([empty], at(5))) == ([], (NOW, at(5)))
    assert span([], NOW) == (NOW, NOW)


@pytest.mark.parametrize(
    ("kind", "state", "ended"),
    [
        ("succeeded", State.SUCCEEDED, "succeeded"),
        ("succeeded", State.RELEASED, "failed"),  # the commit was void
        ("failed", State.RELEASED, "failed"),
        ("stalled", State.DEAD, "failed"),
        ("no_output", State.RELEASED, "failed"),
        ("interrupted", State.RELEASED, "interrupted"),
        ("not_placed", State.RELEASED, "interrupted"),
        ("cancelled", State.CANCELLED, "cancelled"),
    ],
)
def test_each_attempt_has_one_outcome(kind: str, state: State, ended: str) -> None:
    assert outcome(attempt(ended_at=at(50), kind=kind, state=state)) == ended
    assert outcome(attempt()) is None
