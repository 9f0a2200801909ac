"""The rows that claims, receives and cancels write."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.domain.claim import (
    Claim,
    Postpone,
    adopted,
    cancelled,
    cancelled_before_claim,
    decide_claim,
    new_run,
    next_attempt,
    seen,
)
from longhaul.domain.dead_letter import reason_of
from longhaul.domain.lease import State
from longhaul.domain.lineage import Lineage
from longhaul.domain.outcome import settle
from longhaul.domain.request import JobRequest
from longhaul.domain.verdict import OutcomeClass, Verdict
from longhaul.settings import LeaseSettings
from tests.builders import BODY, NOW, changed, message, running, stage

TIMING = LeaseSettings()
LATER = NOW + timedelta(hours=1)
RELEASED = replace(running(), state=State.RELEASED, settled_attempt=1, retry_at=NOW)
LINEAGE = Lineage(root="main#root", parent="main#parent")


def test_back_off_has_passed_at_its_very_end() -> None:
    assert isinstance(decide_claim(RELEASED, message(), stage(), TIMING, NOW), Claim)
    early = NOW - timedelta(milliseconds=1)
    assert decide_claim(RELEASED, message(), stage(), TIMING, early) == Postpone(NOW)


def test_message_sent_after_a_cancel_looks_every_15_s_whether_the_run_has_ended() -> None:
    cancelled_row = replace(running(), cancel_requested_at=NOW, cancelled_at=NOW)
    after = message(message_id="m-2", sent_at=LATER, first_sent_at=LATER)

    assert decide_claim(cancelled_row, after, stage(), TIMING, LATER) == Postpone(
        LATER + timedelta(seconds=15)
    )


def test_stage_says_which_job_runs_where_the_request_does_not() -> None:
    without = {name: value for name, value in BODY.items() if name != "job"}
    asks = message(request=JobRequest.model_validate(without))

    assert new_run(None, asks, stage(job="sql"), TIMING, NOW).input.job == "sql"
    assert new_run(None, message(), stage(job="sql"), TIMING, NOW).input.job == "flights_clean"


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

    row = next_attempt(RELEASED, came, TIMING, LATER)

    assert (row.state, row.attempt.number, row.attempt.claimed_at) == (State.RUNNING, 2, LATER)
    assert (row.receive.message_id, row.receive.renews) == ("m-2", "m-1")
    assert (row.receive.receipt_handle, row.receive.receive_count) == ("handle-m-2-1", 4)
    assert (row.receive.received_at, row.receive.sent_at) == (LATER, came.sent_at)
    assert row.receive.first_sent_at == RELEASED.receive.first_sent_at
    assert adopted(running(), came).receive == row.receive
    assert row.input.attempt == 2
    assert row.input.first_wait_s == 15


def test_receive_of_a_released_job_is_noted_with_its_time() -> None:
    assert seen(RELEASED, LATER).receive == replace(RELEASED.receive, seen_at=LATER)


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
    assert mark.is_mark


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


def test_wait_for_a_place_begins_with_the_first_refusal_and_is_kept() -> None:
    refused = Verdict(OutcomeClass.NOT_PLACED, "no room")
    first = settle(running(), refused, stage(), TIMING, LATER, random.Random(1)).lease
    assert first.unplaced_since == NOW
    second = settle(
        replace(first, state=State.RUNNING), refused, stage(), TIMING, LATER, random.Random(1)
    ).lease
    assert second.unplaced_since == NOW


@pytest.mark.parametrize(("waited_s", "state"), [(604_799, "RELEASED"), (604_800, "DEAD")])
def test_job_without_a_place_is_dead_after_seven_days(waited_s: int, state: str) -> None:
    refused = Verdict(OutcomeClass.NOT_PLACED, "no room")
    now = NOW + timedelta(seconds=waited_s)

    assert settle(running(), refused, stage(), TIMING, now, random.Random(1)).lease.state == state
