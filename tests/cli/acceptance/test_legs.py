"""The legs of a job, from its history."""

from datetime import timedelta

from longhaul.cli.acceptance.cases import CASES, ON_EMR
from longhaul.cli.acceptance.legs import Expectations, Leg, timings
from longhaul.domain.lease import State
from longhaul.settings import LeaseSettings
from tests.builders import NOW, record

USUAL = Expectations(LeaseSettings())
BY_NAME = {case.name: case for case in CASES}


def at(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


FIRST = record(
    1,
    queued_at=NOW - at(3),
    started_at=NOW + at(50),
    ended_at=NOW + at(70),
    state=State.RELEASED,
)
SECOND = record(2, claimed_at=NOW + at(90), started_at=NOW + at(300), ended_at=NOW + at(310))


def legs(case: str, *records: object, **moments: object) -> dict[tuple[int, Leg], float]:
    found = timings("job", records, USUAL, case=BY_NAME[case], **moments)  # type: ignore[arg-type]
    return {(each.attempt, each.leg): each.seconds for each in found}


def test_each_attempt_is_claimed_started_and_the_last_one_deleted() -> None:
    assert legs("failure", FIRST, SECOND, gone_at=NOW + at(314)) == {
        (1, Leg.CLAIMED): 3,
        (1, Leg.STARTED): 50,
        (2, Leg.RETRIED): 20,
        (2, Leg.STARTED): 210,
        (2, Leg.DELETED): 4,
    }


def test_after_a_disturbance_the_next_attempt_counts_from_it() -> None:
    found = legs("stopped-task", FIRST, SECOND, disturbed_at=NOW + at(60))
    assert found[2, Leg.RETRIED_AFTER_KILL] == 30
    assert (2, Leg.RETRIED) not in found


def test_a_cancel_counts_until_the_attempt_has_ended() -> None:
    ended = record(1, ended_at=NOW + at(9), state=State.CANCELLED)
    assert legs("cancel", ended, disturbed_at=NOW + at(2))[1, Leg.ENDED] == 7


def test_clocks_that_differ_give_no_negative_time() -> None:
    ahead = record(1, queued_at=NOW + at(2))
    assert legs("success", ahead) == {(1, Leg.CLAIMED): 0}


def test_only_a_leg_outside_its_range_is_unusual() -> None:
    found = list(timings("job", [FIRST, SECOND], USUAL, case=BY_NAME["failure"]))
    assert [each.is_usual for each in found] == [True, True, True, False]  # 210 s to start


def test_a_driver_on_emr_serverless_may_take_longer_to_start_than_a_task() -> None:
    assert USUAL.of(Leg.STARTED, ON_EMR).most > USUAL.of(Leg.STARTED, BY_NAME["success"]).most


def test_no_attempt_may_follow_a_stopped_execution_before_its_task_must_be_gone() -> None:
    expected = USUAL.of(Leg.RETRIED_AFTER_KILL, BY_NAME["stopped-execution"])
    assert expected.least == 150
    assert USUAL.of(Leg.RETRIED_AFTER_KILL, BY_NAME["stopped-task"]).least == 0


def test_patience_covers_every_leg_of_a_case_twice() -> None:
    timing = LeaseSettings()
    for case in CASES:
        assert USUAL.whole_s(case) > timing.start_timeout_s + 2 * (10 + 120)
    assert USUAL.whole_s(BY_NAME["stopped-execution"]) > USUAL.whole_s(BY_NAME["success"]) + 300
