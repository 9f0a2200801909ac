"""Rows that are given up, claimed again from the row alone, or of a stage that was removed."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from longhaul.core.claim import Claim, claim_without_message
from longhaul.core.lease import Lease, Owed, State
from longhaul.core.settings import LeaseSettings
from longhaul.core.settlement import IN_A_ROW, MAX_ERRORS, ended, explained, given_up, without_retry
from longhaul.core.verdict import OutcomeClass, Verdict
from tests.builders import NOW, changed, planned, running

TIMING = LeaseSettings()
RELEASED = replace(running(), state=State.RELEASED, settled_attempt=1, retry_at=NOW)
DUE = NOW + timedelta(seconds=150)


def test_retry_is_claimed_from_its_row_when_its_message_had_time_to_come() -> None:
    claim = claim_without_message(RELEASED, TIMING, DUE)

    assert isinstance(claim, Claim)
    assert claim.replaces == RELEASED
    assert (claim.lease.state, claim.lease.attempt.number) == (State.RUNNING, 2)
    assert claim.lease.receive.receipt_handle is None


@pytest.mark.parametrize(
    "changes",
    [
        {"state": State.RUNNING},
        {"state": State.DEAD},
        {"cancel_requested_at": NOW},
        {"retry_at": None},
        {"retry_at": NOW + timedelta(milliseconds=1)},
    ],
    ids=str,
)
def test_retry_waits_for_its_message_while_it_is_early_or_anything_speaks_against_it(
    changes: dict[str, Any],
) -> None:
    assert claim_without_message(changed(RELEASED, **changes), TIMING, DUE) is None


def test_first_attempt_of_a_planned_job_always_waits_for_its_message() -> None:
    row = planned()
    assert row.retry_at is not None
    assert claim_without_message(row, TIMING, row.retry_at + timedelta(hours=1)) is None


@pytest.mark.parametrize(
    ("state", "owed", "what"),
    [
        (State.RUNNING, (), "its attempt could not be settled"),
        (State.RELEASED, (), "its next attempt could not be started"),
        (
            State.SUCCEEDED,
            (Owed.PUBLISH, Owed.DELETE),
            "after it had ended, this failed: publish, delete",
        ),
    ],
)
def test_job_that_is_given_up_is_dead_with_what_failed(
    state: State, owed: tuple[Owed, ...], what: str
) -> None:
    row: Lease = replace(running(), state=state, owed=owed)
    later = NOW + timedelta(hours=1)

    dead = given_up(row, KeyError("a secret"), later)

    assert (dead.state, dead.owed) == (State.DEAD, (Owed.DEAD_LETTER, Owed.DELETE))
    assert (dead.settled_attempt, dead.settled_at) == (1, later)
    assert dead.last_class == "internal_error"
    assert dead.last_error == explained(KeyError("a secret"), what)
    assert "secret" not in (dead.last_error or "")
    assert what in (dead.last_error or "")


def test_job_is_given_up_after_ten_errors_within_an_hour_of_each_other() -> None:
    assert (MAX_ERRORS, timedelta(hours=1)) == (10, IN_A_ROW)
    assert explained(KeyError(), "x").startswith("KeyError, 10 times in a row: x")


def test_given_up_job_never_settles_an_attempt_again() -> None:
    assert given_up(replace(running(), settled_attempt=7), KeyError(), NOW).settled_attempt == 7


@pytest.mark.parametrize("kind", [OutcomeClass.SUCCEEDED, OutcomeClass.CANCELLED])
def test_success_and_cancel_stay_what_they_are_in_a_removed_stage(kind: OutcomeClass) -> None:
    verdict = Verdict(kind, "x", stop_task=True)

    assert without_retry(verdict) == verdict


@pytest.mark.parametrize("stop_task", [True, False])
def test_failure_in_a_removed_stage_is_the_last_and_keeps_its_class_in_words(
    *, stop_task: bool
) -> None:
    last = without_retry(Verdict(OutcomeClass.STALLED, "no progress", stop_task))

    assert (last.kind, last.stop_task) == (OutcomeClass.PERMANENT, stop_task)
    assert last.detail.startswith("stalled: no progress; its stage was removed")


@pytest.mark.parametrize(
    ("last_error", "says"),
    [("exit code 1", "exit code 1; its stage"), (None, "it waited for its next attempt; its")],
)
def test_job_that_waits_in_a_removed_stage_ends_without_a_dead_letter(
    last_error: str | None, says: str
) -> None:
    later = NOW + timedelta(hours=1)

    row = ended(replace(RELEASED, last_error=last_error, owed=(Owed.DELETE,)), later)

    assert (row.state, row.owed, row.settled_at) == (State.DEAD, (), later)
    assert row.last_class == "stage_removed"
    assert (row.last_error or "").startswith(says)
