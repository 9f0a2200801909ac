"""The rows that claims, receives and cancels write."""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from longhaul.core.claim import (
    Claim,
    Duplicate,
    Postpone,
    Probe,
    adopted,
    cancelled,
    cancelled_before_claim,
    decide_claim,
    may_claim_without_message,
    new_run,
    next_attempt,
)
from longhaul.core.dead_letter import reason_of
from longhaul.core.descent import Lineage
from longhaul.core.lease import Lease, Owed, Receive, State
from longhaul.core.request import JobRequest
from longhaul.core.settings import LeaseSettings
from longhaul.core.settlement import (
    IN_A_ROW,
    MAX_ERRORS,
    after_verdict,
    ended,
    explained,
    given_up,
    without_retry,
)
from longhaul.core.verdict import OutcomeClass, Verdict
from tests.builders import BODY, NOW, changed, message, running, stage

TIMING = LeaseSettings()
LATER = NOW + timedelta(hours=1)
RELEASED = replace(running(), state=State.RELEASED, settled_attempt=1, retry_at=NOW)
LINEAGE = Lineage(root="main#root", parent="main#parent")


def test_back_off_has_passed_at_its_very_end() -> None:
    assert isinstance(decide_claim(RELEASED, message(), TIMING, NOW), Claim)
    early = NOW - timedelta(milliseconds=1)
    assert decide_claim(RELEASED, message(), TIMING, early) == Postpone(NOW)


def test_message_sent_after_a_cancel_looks_every_15_s_whether_the_run_has_ended() -> None:
    cancelled_row = replace(running(), cancel_requested_at=NOW, cancelled_at=NOW)
    after = message(message_id="m-2", sent_at=LATER, first_sent_at=LATER)

    assert decide_claim(cancelled_row, after, TIMING, LATER) == Postpone(
        LATER + timedelta(seconds=15)
    )


def test_request_decides_for_itself_and_its_stage_for_what_it_leaves_out() -> None:
    of_stage = {"engine": "emr-serverless", "size": "large", "timeout_s": 60, "max_attempts": 9}
    asked = {"engine": "fargate", "size": "medium", "timeout": "1h", "max_attempts": 2}
    asks = JobRequest.model_validate({**BODY, **asked})
    rows = [
        new_run(None, each, stage(**of_stage), TIMING, NOW)
        for each in (message(), message(request=asks))
    ]

    found = [(row.input.engine, row.input.size, row.input.timeout_s) for row in rows]
    assert found == [("emr-serverless", "large", 60), ("fargate", "medium", 3_600)]
    assert [row.max_attempts for row in rows] == [9, 2]


def test_row_of_a_claim_knows_its_work_and_where_its_request_lies() -> None:
    came = message()
    row = new_run(None, came, stage(), TIMING, NOW)

    assert (row.key, row.stage, row.input.job_id) == ("main#january", "main", "january")
    assert (row.fingerprint, row.request_ref) == (came.request.fingerprint(), came.request_ref)
    assert came.request_ref.startswith("longhaul/requests/")
    assert row.run == NOW.timestamp() * 1000


@pytest.mark.parametrize(
    ("old", "starts"),
    [
        (None, True),
        (replace(running(), state=State.DEAD, settled_at=NOW), True),
        (RELEASED, False),
    ],
    ids=["no row", "another run", "the same run"],
)
def test_claim_starts_a_run_unless_it_goes_on_with_one(old: Lease | None, *, starts: bool) -> None:
    after = message(message_id="m-2" if starts else "m-1", first_sent_at=LATER)

    assert decide_claim(old, after, TIMING, LATER) == Claim(old, starts_run=starts)


def test_receive_as_late_as_the_one_of_the_row_is_the_newer() -> None:
    again = message(receipt_handle="again")
    earlier = message(receipt_handle="earlier", receive_count=0)

    assert adopted(running(), again).receive.receipt_handle == "again"
    assert adopted(running(), earlier).receive == running().receive
    # The receives of another message have nothing to do with those of this one.
    copy = message(message_id="m-2", receive_count=0, receipt_handle="of the copy")
    assert adopted(running(), copy).receive.receipt_handle == "of the copy"


def test_message_sent_in_the_same_millisecond_as_that_of_the_row_is_not_replaced() -> None:
    row = changed(running(), message_id="m-2", renews="m-1", sent_at=NOW)
    first = message(message_id="m-1", sent_at=NOW)
    earlier = message(message_id="m-1", sent_at=NOW - timedelta(milliseconds=1))

    assert decide_claim(row, first, TIMING, LATER) == Probe(row)
    assert decide_claim(row, earlier, TIMING, LATER) == Duplicate()


@pytest.mark.parametrize(("asked", "lineage"), [(None, LINEAGE), (LINEAGE, LINEAGE)])
def test_correction_keeps_the_place_of_the_job_that_died(
    asked: Lineage | None, lineage: Lineage
) -> None:
    other = Lineage(root="main#other", parent="main#other")
    dead = replace(running(), state=State.DEAD, lineage=other if asked else LINEAGE)
    request = JobRequest.model_validate(BODY).model_copy(update={"lineage": asked})

    assert new_run(dead, message(request=request), stage(), TIMING, NOW).lineage == lineage


def test_lease_of_a_claim_expires_with_the_visibility_of_its_message() -> None:
    # A first wait of 15 s, a quarter more, and a minute.
    assert running().attempt.lease_expires_at == NOW + timedelta(seconds=79)
    held = message(received_at=NOW - timedelta(seconds=43_180))
    near_the_cap = new_run(None, held, stage(), TIMING, NOW)
    assert near_the_cap.attempt.lease_expires_at == NOW + timedelta(seconds=15)


def test_first_run_settled_nothing() -> None:
    assert running().settled_attempt == 0
    assert new_run(RELEASED, message(), stage(), TIMING, LATER).settled_attempt == 1


def test_next_attempt_has_a_fresh_record_and_the_receive_of_its_message() -> None:
    came = message(message_id="m-2", receive_count=4, received_at=LATER, renews="m-1")

    row = next_attempt(RELEASED, came, LeaseSettings(beat_floor_s=20), LATER)

    assert (row.state, row.attempt.number, row.attempt.claimed_at) == (State.RUNNING, 2, LATER)
    assert (row.receive.message_id, row.receive.renews) == ("m-2", "m-1")
    assert (row.receive.receipt_handle, row.receive.receive_count) == ("handle-m-2-1", 4)
    assert (row.receive.received_at, row.receive.sent_at) == (LATER, came.sent_at)
    assert row.receive.first_sent_at == RELEASED.receive.first_sent_at
    assert adopted(running(), came).receive == row.receive
    assert row.input.attempt == 2
    assert row.input.first_wait_s == 20


def test_cancel_marks_a_job_that_has_not_ended_once() -> None:
    once = cancelled(running(), NOW)
    twice = cancelled(once, LATER)

    assert (once.cancel_requested_at, once.cancelled_at) == (NOW, NOW)
    assert (twice.cancel_requested_at, twice.cancelled_at) == (NOW, LATER)
    # A clock that is behind takes nothing back.
    assert cancelled(twice, NOW).cancelled_at == LATER


def test_cancel_of_an_ended_job_covers_what_was_sent_before_and_marks_nothing() -> None:
    row = cancelled(replace(running(), state=State.SUCCEEDED), LATER)

    assert (row.cancel_requested_at, row.cancelled_at) == (None, LATER)


def test_mark_before_a_claim_is_a_released_row_without_an_attempt() -> None:
    mark = cancelled_before_claim("main#a", "main", NOW)

    assert (mark.state, mark.attempt.number, mark.attempt.claimed_at) == (State.RELEASED, 0, NOW)
    assert (mark.cancel_requested_at, mark.cancelled_at) == (NOW, NOW)
    assert (mark.is_mark, mark.open_kind) == (True, None)
    assert not running().is_mark
    assert (mark.key, mark.stage, mark.run) == ("main#a", "main", NOW.timestamp() * 1000)
    assert (mark.fingerprint, mark.request_ref, mark.execution_input) == ("", "", "")
    assert (mark.max_attempts, mark.stall_timeout_s, mark.receive) == (1, 1, Receive(""))


def test_dead_letter_counts_all_attempts_and_has_a_class_and_a_reason() -> None:
    row = changed(running(), failures=2, interruptions=3)

    reason = reason_of(row, "arn:execution", "/longhaul/jobs:stream")

    assert (reason.attempts, reason.failures, reason.interruptions) == (5, 2, 3)
    assert (reason.kind, reason.reason) == ("failed", "")
    assert (reason.key, reason.run) == (row.key, row.run)
    assert (reason.execution_arn, reason.log_location) == ("arn:execution", "/longhaul/jobs:stream")
    stalled = replace(row, last_class="stalled", last_error="no progress")
    assert (reason_of(stalled, "arn", None).kind, reason_of(stalled, "arn", None).reason) == (
        "stalled",
        "no progress",
    )


@pytest.mark.parametrize("waited", [timedelta(0), timedelta(minutes=1), timedelta(days=8)])
def test_wait_for_a_slot_does_not_count_as_a_lack_of_room(waited: timedelta) -> None:
    refused = Verdict(OutcomeClass.NOT_PLACED, "no room")
    row = after_verdict(running(), refused, stage(), TIMING, NOW, random.Random(1)).lease
    assert row.retry_at is not None
    back_off = row.retry_at - NOW

    row = next_attempt(row, None, TIMING, row.retry_at + waited)
    again = after_verdict(
        row, refused, stage(), TIMING, row.attempt.claimed_at, random.Random(1)
    ).lease

    assert again.state is State.RELEASED
    assert again.unplaced_since == NOW + waited
    assert again.unplaced_for(row.attempt.claimed_at) == back_off


def test_claim_of_a_due_job_by_a_clock_that_is_behind_keeps_the_time_without_a_place() -> None:
    row = replace(RELEASED, unplaced_since=NOW, retry_at=LATER)

    assert next_attempt(row, None, TIMING, NOW).unplaced_since == NOW


# Rows that are given up, claimed again from the row alone, or of a stage that was removed.


DUE = NOW + timedelta(seconds=150)


def test_retry_is_claimed_from_its_row_when_its_message_had_time_to_come() -> None:
    assert may_claim_without_message(RELEASED, DUE)

    row = next_attempt(RELEASED, None, TIMING, DUE)
    assert (row.state, row.attempt.number) == (State.RUNNING, 2)
    assert row.receive.receipt_handle is None


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
    assert not may_claim_without_message(changed(RELEASED, **changes), DUE)


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
