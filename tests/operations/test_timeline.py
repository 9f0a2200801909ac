"""A job's life as a lane."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from longhaul.core.history import AttemptRecord
from longhaul.core.lease import State
from longhaul.operations.timeline import Lane, lane, outcome, span
from tests.builders import NOW, changed, planned, record, running


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


def test_a_retry_is_a_wait_an_attempt_a_back_off_and_a_running_attempt() -> None:
    shown = lane(changed(running(), attempt=2), [FAILED, SECOND])
    assert told(shown) == [
        ("waiting", 0, 10),
        ("starting", 10, 40),
        ("running", 40, 100),
        ("backing off", 100, 130),
        ("waiting", 130, 135),
        ("starting", 135, 150),
        ("running", 150, None),
    ]
    assert shown.ended_at is None
    assert (shown.waited_s(at(200)), shown.ran_s(at(200))) == (45, 155)
    assert span([shown], at(200)) == (at(0), at(200))


def test_a_released_job_backs_off_and_then_waits_without_end() -> None:
    row = replace(
        running(), state=State.RELEASED, settled_attempt=1, settled_at=at(100), retry_at=at(130)
    )
    assert told(lane(row, [FAILED]))[-2:] == [("backing off", 100, 130), ("waiting", 130, None)]


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


def test_a_task_that_never_reported_is_starting_until_its_end() -> None:
    never = attempt(ended_at=at(70), kind="interrupted", state=State.RELEASED)
    assert told(lane(running(), [never])) == [("waiting", 0, 10), ("starting", 10, 70)]


def test_the_time_between_two_runs_is_no_wait() -> None:
    redriven = attempt(2, queued_at=at(5_000), claimed_at=at(5_010), started_at=at(5_020))
    assert told(lane(changed(running(), attempt=2), [FAILED, redriven]))[3] == (
        "waiting",
        5_000,
        5_010,
    )


def test_an_early_claim_after_a_back_off_has_no_wait() -> None:
    """A corrected resubmission, or clocks that differ."""
    early = changed(SECOND, claimed_at=at(120))
    assert told(lane(running(), [early]))[:2] == [("backing off", 100, 120), ("starting", 120, 150)]


def test_a_planned_job_waits_for_its_time() -> None:
    row = planned(at=at(100))
    assert told(lane(row, [])) == [("backing off", 0, 100), ("waiting", 100, None)]


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
