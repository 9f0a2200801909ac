"""Whether what happened is what was expected, and what is said where it is not."""

from datetime import timedelta

from longhaul.cli.acceptance.cases import CASES, IN_SOME, Trial
from longhaul.cli.acceptance.legs import Expectations
from longhaul.cli.acceptance.verdicts import Result, Verdict, judge
from longhaul.cli.acceptance.watcher import Observed
from longhaul.domain.lease import State
from longhaul.settings import LeaseSettings
from tests.builders import NOW, running, stage

BY_NAME = {case.name: case for case in (*CASES, *IN_SOME)}
JOINS = stage(name="joins", job="probe", join=True)


def observed(case: str, **changes: object) -> Observed:
    trial = Trial(BY_NAME[case], stage(), "verify-1", "{}", JOINS)
    seen = Observed(trial, NOW, NOW + timedelta(minutes=20), is_over=True)
    seen.row = running(**changes) if changes else None
    return seen


def judged(seen: Observed, rows: dict[str, int] | None = None) -> Result:
    return judge(seen, {}, rows or {}, Expectations(LeaseSettings()))


def test_the_expected_ending_has_passed() -> None:
    seen = observed("success", state=State.SUCCEEDED)
    assert seen.row is not None
    found = judged(seen, {seen.row.key: 1})
    assert (found.verdict, found.happened) == (Verdict.PASSED, found.expected)
    assert found.happened == "SUCCEEDED, 1 attempt, 1 row"


def test_one_attempt_too_many_has_failed_and_its_reason_is_shown() -> None:
    changes = {"attempt": 2, "interruptions": 1, "last_class": "interrupted", "last_error": "Spot"}
    seen = observed("success", state=State.SUCCEEDED, **changes)
    assert seen.row is not None
    found = judged(seen, {seen.row.key: 1})
    assert found.verdict is Verdict.FAILED
    assert found.happened.startswith("SUCCEEDED, 2 attempts, 1 interruption, 1 row (")
    assert "interrupted: Spot" in found.happened
    assert "longhaul status verify-1 --history" in found.do


def test_a_success_that_published_nothing_has_failed() -> None:
    assert judged(observed("success", state=State.SUCCEEDED)).verdict is Verdict.FAILED


def test_a_message_that_is_no_request_needs_its_dead_letter() -> None:
    seen = observed("invalid", state=State.DEAD, attempt=0, execution_input="")
    assert judged(seen).verdict is Verdict.FAILED
    seen.letters = ("invalid_request",)
    found = judged(seen)
    assert (found.verdict, found.happened) == (Verdict.PASSED, "DEAD; dead letter invalid_request")


def test_what_is_late_has_failed_even_if_it_looks_right() -> None:
    seen = observed("cancel", state=State.CANCELLED)
    assert judged(seen).verdict is Verdict.PASSED
    seen.is_late = True
    found = judged(seen)
    assert found.verdict is Verdict.FAILED
    assert found.happened.startswith("not over after 20m: CANCELLED")


def test_a_fan_out_needs_its_members_its_join_and_their_rows() -> None:
    seen = observed("fan-out", state=State.SUCCEEDED)
    members = [running(key=f"members#{n}", stage="members", state=State.SUCCEEDED) for n in (1, 2)]
    join = running(key="joins#1", stage="joins", state=State.SUCCEEDED)
    seen.relatives = [*members, join]
    assert judged(seen, {"joins#1": 3}).verdict is Verdict.PASSED
    assert judged(seen, {"joins#1": 2}).verdict is Verdict.FAILED
    seen.relatives = members
    assert judged(seen).verdict is Verdict.FAILED
