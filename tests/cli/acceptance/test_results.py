"""Whether what happened is what was expected, and how long each step took."""

from datetime import timedelta
from typing import Any

import pytest

from longhaul.cli.acceptance.cases import CASES, Disturbance
from longhaul.cli.acceptance.results import (
    CLAIMED,
    DELETED,
    RETRIED,
    STARTED,
    Result,
    Trial,
    judged,
    steps,
    usual,
)
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import State
from longhaul.settings import LeaseSettings
from tests.builders import NOW, record, running

BY_NAME = {case.name: case for case in CASES}
TIMING = LeaseSettings()


def at(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


FIRST = record(
    1, queued_at=NOW - at(3), started_at=NOW + at(50), ended_at=NOW + at(70), state=State.RELEASED
)
SECOND = record(
    2,
    queued_at=NOW + at(70),
    claimed_at=NOW + at(90),
    started_at=NOW + at(300),
    ended_at=NOW + at(310),
)


def seen(case: str, **moments: Any) -> Trial:
    return Trial(BY_NAME[case], "verify-1", NOW, **moments)


def result(trial: Trial, *letters: str, has_output: bool = False) -> Result:
    return judged(trial, (), letters, TIMING, has_output=has_output)


@pytest.mark.parametrize(
    ("case", "row", "letters", "has_output"),
    [
        ("success", {"state": State.SUCCEEDED}, (), True),
        ("failure", {"state": State.SUCCEEDED, "attempt": 2, "failures": 1}, (), True),
        ("refusal", {"state": State.DEAD, "failures": 1}, ("permanent",), False),
        (
            "invalid",
            {"state": State.DEAD, "attempt": 0, "execution_input": ""},
            ("invalid_request",),
            False,
        ),
        ("cancel", {"state": State.CANCELLED}, (), False),
        ("stopped-task", {"state": State.SUCCEEDED, "attempt": 2, "interruptions": 1}, (), True),
    ],
)
def test_only_the_expected_ending_has_passed(
    case: str, row: dict[str, Any], letters: tuple[str, ...], *, has_output: bool
) -> None:
    trial = seen(case, row=running(**row))
    found = result(trial, *letters, has_output=has_output)
    assert (found.is_good, found.happened) == (True, found.expected)
    for other in (
        result(trial, *letters, has_output=not has_output),
        result(trial, *letters, "failed", has_output=has_output),
        result(seen(case), *letters, has_output=has_output),
        result(seen(case, row=running(**{**row, "attempt": 3})), *letters, has_output=has_output),
        result(seen(case, row=running(**row), is_late=True), *letters, has_output=has_output),
    ):
        assert (other.is_good, other.verdict) == (False, "failed")
        assert "longhaul status verify-1 --history" in other.do


def test_a_failure_shows_the_reason_of_the_row() -> None:
    row = running(state=State.SUCCEEDED, attempt=2, last_class="interrupted", last_error="Spot")
    found = result(seen("success", row=row), has_output=True)
    assert found.happened == "SUCCEEDED, 2 attempts, output (interrupted: Spot)"


def taken(trial: Trial, *attempts: AttemptRecord) -> dict[tuple[int, str], float]:
    return {(each.attempt, each.name): each.seconds for each in steps(trial, attempts, TIMING)}


def test_each_attempt_is_claimed_started_and_the_last_one_deleted() -> None:
    assert taken(seen("failure", gone_at=NOW + at(314)), FIRST, SECOND) == {
        (1, CLAIMED): 3,
        (1, STARTED): 50,
        (2, RETRIED): 20,
        (2, STARTED): 210,
        (2, DELETED): 4,
    }


def test_after_a_disturbance_the_next_attempt_counts_from_it() -> None:
    found = taken(seen("stopped-task", disturbed_at=NOW + at(60)), FIRST, SECOND)
    assert found[2, Disturbance.STOP_TASK] == 30
    assert (2, RETRIED) not in found


def test_a_cancel_counts_until_the_attempt_has_ended() -> None:
    ended = record(1, ended_at=NOW + at(9), state=State.CANCELLED)
    assert taken(seen("cancel", disturbed_at=NOW + at(2)), ended)[1, Disturbance.CANCEL] == 7


def test_clocks_that_differ_give_no_negative_time() -> None:
    assert taken(seen("success"), record(1, queued_at=NOW + at(2))) == {(1, CLAIMED): 0}


def test_only_a_step_that_takes_longer_than_usual_is_marked() -> None:
    found = list(steps(seen("failure"), [FIRST, SECOND], TIMING))
    assert [each.is_usual for each in found] == [True, True, True, False]  # 210 s to start


def test_after_a_stopped_execution_the_next_attempt_waits_until_its_task_must_be_gone() -> None:
    most = usual(TIMING)
    assert most[Disturbance.STOP_EXECUTION] >= 150 + 60 > most[Disturbance.STOP_TASK]
