"""What a claim writes. Which row and message lead to one: `docs/internals/lease.md`."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from longhaul.core.claim import (
    Cancelled,
    CancelWaiting,
    Claim,
    Conflict,
    Decision,
    Duplicate,
    Postpone,
    Probe,
    adopted,
    claimed,
    decide_claim,
)
from longhaul.core.descent import Lineage
from longhaul.core.lease import DeadRun, Lease, Owed, State
from longhaul.core.message import Again, JobMessage
from longhaul.core.request import JobRequest
from longhaul.core.settings import LeaseSettings, Stage
from tests.builders import BODY, NOW, changed, message, running, stage

LATER = NOW + timedelta(minutes=10)
OTHER_WORK = JobRequest.model_validate({**BODY, "params": {"limit": 1}})


def decide(lease: Lease | None, received: JobMessage) -> Decision:
    return decide_claim(lease, received, LeaseSettings(), LATER)


def taken_by(lease: Lease | None, received: JobMessage, of: Stage | None = None) -> Lease:
    """The row of the claim to which the message leads."""
    claim = decide(lease, received)
    assert isinstance(claim, Claim)
    return claimed(claim, received, of or stage(), LeaseSettings(), LATER)


def released(**changes: object) -> Lease:
    return changed(
        running(),
        **{
            "state": State.RELEASED,
            "settled_attempt": 1,
            "failures": 1,
            "retry_at": NOW + timedelta(minutes=1),
            **changes,
        },
    )


def ended(state: State, *owed: Owed) -> Lease:
    """A job that ended at NOW."""
    return replace(running(), state=state, settled_attempt=1, settled_at=NOW, owed=owed)


def sent(at: datetime, **changes: Any) -> JobMessage:
    """A message of another chain than the row's."""
    return message(**{"message_id": "m-9", "sent_at": at, "first_sent_at": at, **changes})


def test_execution_input_holds_nothing_that_differs_between_deliveries() -> None:
    taken = taken_by(None, message(receipt_handle="handle-x", receive_count=7))
    assert json.loads(taken.execution_input) == {
        "version": 1,
        "key": "main#january",
        "stage": "main",
        "job_id": "january",
        "label": None,
        "job_tag": "flights_clean",
        "label_tag": "",
        "run": str(taken.run),
        "attempt": "1",
        "engine": "fargate",
        "capacity": "FARGATE",
        "job": "flights_clean",
        "size": "small",
        "timeout_s": 21_600,
        "first_wait_s": 15,
    }
    assert (
        taken.execution_input
        == taken_by(None, message(receipt_handle="handle-y", receive_count=8)).execution_input
    )


def test_batch_that_comes_late_does_not_replace_a_newer_receive() -> None:
    row = released()
    late = message(receive_count=row.receive.receive_count - 1, receipt_handle="older")

    taken = taken_by(row, late)
    assert taken.receive == row.receive


def test_retry_keeps_the_stage_settings_of_the_first_claim_after_a_deploy() -> None:
    changed = stage(timeout_s=60, max_attempts=9, size="large")
    taken = taken_by(released(), message(receive_count=2), changed)
    assert (taken.input.timeout_s, taken.input.size, taken.max_attempts) == (
        21_600,
        "small",
        3,
    )


def test_of_two_copies_of_one_message_the_later_one_stays() -> None:
    """A dispatcher or a sweeper sends a copy and dies before it notes that."""
    first, second = (
        message(message_id=f"m-{n}", renews="m-1", sent_at=NOW + timedelta(minutes=n))
        for n in (2, 3)
    )
    row = adopted(adopted(running(), first), second)
    assert row.receive.message_id == "m-3"
    assert (decide(row, first), decide(row, second)) == (Duplicate(), Probe(row))


@pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED])
@pytest.mark.parametrize(
    "leftover",
    [
        pytest.param({"renews": "m-5"}, id="copy of another chain"),
        pytest.param({"is_follow_on": True}, id="follow-on sent again"),
        pytest.param({"sent_at": NOW - timedelta(minutes=1)}, id="doubled by its producer"),
    ],
)
def test_what_is_older_than_the_end_starts_no_run(state: State, leftover: dict[str, Any]) -> None:
    row = ended(state)
    if state is State.CANCELLED:
        row = replace(row, cancel_requested_at=NOW, cancelled_at=NOW)
    before = NOW - timedelta(minutes=1)
    decision = decide(row, sent(LATER, first_sent_at=before, **leftover))
    assert decision == (Cancelled() if state is State.CANCELLED else Duplicate())


def test_copy_of_what_was_sent_after_the_end_starts_a_run() -> None:
    """It waited for a slot for days."""
    copy = sent(LATER, first_sent_at=NOW + timedelta(minutes=1), renews="m-5")
    assert isinstance(decide(ended(State.DEAD), copy), Claim)


LINEAGE = Lineage(root="main#year", parent="main#year")


@pytest.mark.parametrize("state", [State.RUNNING, State.SUCCEEDED, State.DEAD, State.RELEASED])
def test_copy_of_what_a_later_run_leads_to_is_decided_as_the_follow_on_itself(state: State) -> None:
    """It waited behind the run that it replaces until it was renewed."""
    later = LINEAGE.model_copy(update={"run": LINEAGE.run + 1})
    request = OTHER_WORK.model_copy(update={"lineage": later})
    row = replace(ended(state), retry_at=NOW, lineage=LINEAGE)
    first, copy = (
        sent(LATER, first_sent_at=NOW, request=request, **changes)
        for changes in ({"is_follow_on": True}, {"renews": "m-5"})
    )
    of_first, of_copy = decide(row, first), decide(row, copy)
    assert type(of_first) is type(of_copy) is (Postpone if state is State.RUNNING else Claim)


def test_follow_on_whose_id_a_request_by_hand_took_is_no_duplicate_of_that() -> None:
    request = OTHER_WORK.model_copy(update={"lineage": LINEAGE})
    follow_on = sent(LATER, first_sent_at=NOW, is_follow_on=True, request=request)
    assert decide(running(), follow_on) == Conflict(running())


def test_void_success_that_was_cancelled_meanwhile_does_not_run_again() -> None:
    row = released(cancelled_at=NOW)
    assert decide(row, message(receive_count=2)) == CancelWaiting(row, covers=True)
    assert decide(row, sent(LATER)) == CancelWaiting(row, covers=False)


def test_a_run_is_called_as_its_request_says_and_a_correction_without_names_as_before() -> None:
    dead = replace(ended(State.DEAD), label="7 October", tags={"day": "07"})
    renamed = OTHER_WORK.model_copy(update={"label": "mended", "tags": {"day": "7"}})
    for request, label, tags in (
        (OTHER_WORK, "7 October", {"day": "07"}),
        (renamed, "mended", {"day": "7"}),
    ):
        taken = taken_by(dead, sent(LATER, request=request))
        assert (taken.label, taken.tags) == (label, tags)


def test_row_says_who_sent_the_message_of_its_run() -> None:
    taken = taken_by(None, message(sender="AIDAEXAMPLE"))
    assert taken.receive.sender == "AIDAEXAMPLE"
    adopted = decide(taken, message(sender="AIDAOTHER", receive_count=2))
    assert not isinstance(adopted, Claim)


@pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED])
@pytest.mark.parametrize("request_", [message().request, OTHER_WORK], ids=["redriven", "corrected"])
def test_new_run_clears_the_counters_and_continues_the_fencing_token(
    state: State, request_: JobRequest
) -> None:
    lease = changed(
        ended(state),
        attempt=3,
        settled_attempt=3,
        failures=3,
        interruptions=2,
        cancel_requested_at=NOW,
        cancelled_at=NOW,
    )
    taken = taken_by(lease, sent(LATER, request=request_))
    assert taken.run > lease.run
    assert (
        taken.attempt.number,
        taken.failures,
        taken.interruptions,
        taken.cancel_requested_at,
        taken.cancelled_at,
    ) == (
        4,
        0,
        0,
        None,
        NOW,
    )
    assert not taken.has_settled(taken.id)


def test_row_remembers_the_latest_death_of_each_of_the_last_four_works() -> None:
    row = ended(State.DEAD)
    for minute, n in enumerate((1, 2, 3, 4, 2, 5)):
        at = NOW + timedelta(minutes=minute)
        work = JobRequest.model_validate({**BODY, "params": {"limit": n}})
        rerun = taken_by(row, sent(at, request=work, message_id=f"m-{at}"))
        row = replace(rerun, state=State.DEAD, settled_attempt=9, settled_at=at)

    works = [
        JobRequest.model_validate({**BODY, "params": {"limit": n}}).fingerprint()
        for n in (1, 3, 4, 2)
    ]
    assert [each.fingerprint for each in row.dead_runs] == works
    assert row.dead_runs[-1].ended_at == NOW + timedelta(minutes=4)


def test_cancelled_run_is_none_that_died() -> None:
    rerun = taken_by(replace(ended(State.CANCELLED), cancelled_at=NOW), sent(LATER))
    assert rerun.dead_runs == ()


def test_message_of_the_millisecond_of_an_earlier_death_is_not_left_over_from_it() -> None:
    row = replace(running(), dead_runs=(DeadRun(OTHER_WORK.fingerprint(), NOW),))
    left_over = sent(NOW - timedelta(milliseconds=1), request=OTHER_WORK)
    assert decide(row, left_over) == Duplicate()
    assert decide(row, sent(NOW, request=OTHER_WORK)) == Conflict(row)
    # Nor does it matter that it asked for the run that died: another change has run since.
    again = Again(row.run - 1)
    assert decide(row, replace(left_over, again=again)) == Duplicate()
    assert decide(row, sent(NOW, request=OTHER_WORK, again=again)) == Conflict(row)


def test_run_number_grows_even_when_the_clock_goes_back() -> None:
    lease = replace(ended(State.DEAD), run=running().run + 10_000_000_000)
    taken = taken_by(lease, sent(LATER))
    assert taken.run == lease.run + 1


def test_longest_execution_name_fits_step_functions() -> None:
    assert len(changed(running(), key="main#" + "x" * 128, attempt=10**6).id.execution_name) <= 80


def test_spot_stage_falls_back_to_on_demand_after_two_interruptions() -> None:
    first = taken_by(None, message(), stage(spot=True))
    assert first.input.capacity == "FARGATE_SPOT"
    capacities = []
    for interruptions in (1, 2, 3):
        before = replace(first, state=State.RELEASED, interruptions=interruptions)
        again = taken_by(before, message(receive_count=2))
        capacities.append(again.input.capacity)
    assert capacities == ["FARGATE_SPOT", "FARGATE", "FARGATE"]


def test_job_for_which_spot_has_no_room_runs_on_demand_after_the_start_timeout() -> None:
    spot = running().input.model_copy(update={"capacity": "FARGATE_SPOT"}).model_dump_json()
    capacities = []
    for waited_s in (599, 600):
        since = LATER - timedelta(seconds=waited_s)
        refused = released(execution_input=spot, unplaced_since=since, retry_at=LATER)
        taken = taken_by(refused, message(), stage(spot=True))
        capacities.append(taken.input.capacity)
    assert capacities == ["FARGATE_SPOT", "FARGATE"]


def test_job_claimed_by_a_version_without_a_field_goes_on() -> None:
    before = released()
    older = json.loads(before.execution_input)
    del older["capacity"]
    taken = taken_by(replace(before, execution_input=json.dumps(older)), message(receive_count=2))
    assert taken.input.capacity == "FARGATE"
