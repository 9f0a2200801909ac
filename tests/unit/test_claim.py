"""What a received message means for its job: every state of the row, and every kind of message."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.domain.claim import (
    CancelWaiting,
    Claim,
    Conflict,
    Decision,
    Duplicate,
    Finish,
    Postpone,
    Probe,
    decide_claim,
)
from longhaul.domain.lease import Lease, Message, Owed, State
from longhaul.domain.request import JobRequest
from longhaul.settings import LeaseSettings
from tests.builders import BODY, NOW, message, running, stage

LATER = NOW + timedelta(minutes=10)
OTHER_WORK = JobRequest.model_validate({**BODY, "params": {"limit": 1}})


def decide(lease: Lease | None, received: Message) -> Decision:
    return decide_claim(lease, received, stage(), LeaseSettings(), LATER)


def decide_again(**changes: object) -> Claim:
    claim = decide(None, message(**changes))
    assert isinstance(claim, Claim)
    return claim


def released(**changes: object) -> Lease:
    return replace(
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
    return replace(running(), state=state, settled_attempt=1, owed=owed)


def test_a_new_job_is_claimed_as_attempt_1_of_a_new_run() -> None:
    claim = decide(None, message())
    assert isinstance(claim, Claim)
    assert claim.starts_run
    assert (claim.lease.attempt, claim.lease.run) == (1, int(LATER.timestamp() * 1000))
    assert (claim.lease.state, claim.lease.message_id, claim.lease.receive_count) == (State.RUNNING, "m-1", 1)


def test_the_execution_input_is_fixed_at_claim_and_holds_nothing_that_changes_between_deliveries() -> None:
    claim = decide(None, message(receipt_handle="handle-x", receive_count=7))
    assert isinstance(claim, Claim)
    assert json.loads(claim.lease.execution_input) == {
        "version": 1,
        "key": "main#january",
        "stage": "main",
        "job_id": "january",
        "run": str(claim.lease.run),
        "attempt": "1",
        "engine": "fargate",
        "capacity": "FARGATE",
        "job": "flights_clean",
        "size": "small",
        "timeout_s": 21_600,
        "first_wait_s": 15,
    }
    assert claim.lease.execution_input == decide_again(receipt_handle="handle-y", receive_count=8).lease.execution_input


def test_own_message_of_a_running_job_probes_its_execution() -> None:
    assert decide(running(), message(receive_count=2)) == Probe(running())


def test_same_work_under_the_key_of_a_running_job_is_a_duplicate() -> None:
    assert decide(running(), message(message_id="m-2")) == Duplicate()


def test_own_message_of_a_released_job_starts_the_next_attempt_in_the_same_run() -> None:
    claim = decide(released(), message(receipt_handle="handle-2", receive_count=2))
    assert isinstance(claim, Claim)
    assert not claim.starts_run
    assert (claim.lease.attempt, claim.lease.run, claim.lease.failures) == (2, running().run, 1)
    assert claim.lease.input.attempt == 2
    assert (claim.lease.receipt_handle, claim.lease.receive_count) == ("handle-2", 2)


def test_nothing_of_the_attempt_before_shows_in_the_next() -> None:
    before = released(task_arn="arn:task", progress={"fraction": 0.5}, progress_at=NOW, beats=7, beat_ages_s=(15,))
    claim = decide(before, message(receive_count=2))
    assert isinstance(claim, Claim)
    assert (
        claim.lease.task_arn,
        claim.lease.progress,
        claim.lease.progress_at,
        claim.lease.beats,
        claim.lease.beat_ages_s,
        claim.lease.result,
    ) == (None, {}, None, 0, (), None)


def test_what_the_stage_said_at_the_first_claim_stays_when_a_deploy_changes_it() -> None:
    changed = stage(timeout_s=60, max_attempts=9, size="large")
    claim = decide_claim(released(), message(receive_count=2), changed, LeaseSettings(), LATER)
    assert isinstance(claim, Claim)
    assert (claim.lease.input.timeout_s, claim.lease.input.size, claim.lease.max_attempts) == (21_600, "small", 3)


def test_a_message_that_comes_before_its_back_off_has_passed_is_postponed() -> None:
    soon = LATER + timedelta(minutes=1)
    assert decide(released(retry_at=soon), message(receive_count=2)) == Postpone(soon)


def test_same_work_from_another_message_takes_a_released_job_over_and_the_old_message_becomes_the_duplicate() -> None:
    claim = decide(released(), message(message_id="m-2"))
    assert isinstance(claim, Claim)
    assert claim.lease.message_id == "m-2"
    assert decide(replace(claim.lease, state=State.RELEASED), message(receive_count=9)) == Duplicate()


def test_a_copy_that_renews_the_message_takes_it_over() -> None:
    claim = decide(released(), message(message_id="m-2", renews="m-1"))
    assert isinstance(claim, Claim)
    assert claim.lease.former_message_ids == ("m-1",)
    assert decide(running(), message(message_id="m-2", renews="m-1")) == Probe(running())


@pytest.mark.parametrize("lease", [running(), released(), ended(State.SUCCEEDED)], ids=lambda lease: lease.state)
def test_other_work_under_a_key_in_use_is_a_conflict(lease: Lease) -> None:
    assert decide(lease, message(message_id="m-2", request=OTHER_WORK)) == Conflict(lease)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.DEAD, State.CANCELLED])
def test_own_message_of_an_ended_job_is_finished_and_deleted(state: State) -> None:
    lease = ended(state, Owed.DELETE)
    assert decide(lease, message(receive_count=2)) == Finish(lease, own=True)


def test_work_that_succeeded_is_not_done_again() -> None:
    assert decide(ended(State.SUCCEEDED), message(message_id="m-2")) == Duplicate()


@pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED])
@pytest.mark.parametrize("request_", [message().request, OTHER_WORK], ids=["redriven", "corrected"])
def test_a_dead_or_cancelled_job_starts_a_new_run_with_counters_cleared_and_the_fencing_token_going_on(
    state: State, request_: JobRequest
) -> None:
    lease = replace(ended(state), attempt=3, settled_attempt=3, failures=3, interruptions=2, cancel_requested_at=NOW)
    claim = decide(lease, message(message_id="m-2", request=request_))
    assert isinstance(claim, Claim)
    assert claim.starts_run
    assert claim.lease.run > lease.run
    assert (claim.lease.attempt, claim.lease.failures, claim.lease.interruptions, claim.lease.cancel_requested_at) == (
        4,
        0,
        0,
        None,
    )
    assert not claim.lease.has_settled(claim.lease.id)


def test_a_new_run_waits_until_the_old_one_owes_nothing() -> None:
    lease = ended(State.DEAD, Owed.DEAD_LETTER, Owed.DELETE)
    assert decide(lease, message(message_id="m-2")) == Finish(lease, own=False)


def test_an_old_message_of_a_re_run_job_never_starts_a_third_run() -> None:
    rerun = decide(ended(State.DEAD), message(message_id="m-2"))
    assert isinstance(rerun, Claim)
    dead_again = replace(rerun.lease, state=State.DEAD, settled_attempt=rerun.lease.attempt)
    assert decide(dead_again, message(message_id="m-1", receive_count=3)) == Duplicate()


def test_a_job_cancelled_between_attempts_does_not_start() -> None:
    lease = released(cancel_requested_at=NOW)
    assert decide(lease, message(receive_count=2)) == CancelWaiting(lease)


def test_a_run_never_goes_back_even_when_the_clock_does() -> None:
    lease = replace(ended(State.DEAD), run=running().run + 10_000_000_000)
    claim = decide(lease, message(message_id="m-2"))
    assert isinstance(claim, Claim)
    assert claim.lease.run == lease.run + 1


def test_an_execution_name_fits_step_functions() -> None:
    assert len(replace(running(), key="main#" + "x" * 128, attempt=10**6).id.execution_name) <= 80


def test_a_stage_may_run_on_spot_and_falls_back_to_on_demand_after_two_interruptions() -> None:
    first = decide_claim(None, message(), stage(spot=True), LeaseSettings(), LATER)
    assert isinstance(first, Claim)
    assert first.lease.input.capacity == "FARGATE_SPOT"
    capacities = []
    for interruptions in (1, 2, 3):
        before = replace(first.lease, state=State.RELEASED, interruptions=interruptions)
        again = decide(before, message(receive_count=2))
        assert isinstance(again, Claim)
        capacities.append(again.lease.input.capacity)
    assert capacities == ["FARGATE_SPOT", "FARGATE", "FARGATE"]


def test_a_job_claimed_by_the_version_before_a_field_goes_on() -> None:
    before = released()
    older = json.loads(before.execution_input)
    del older["capacity"]
    claim = decide(replace(before, execution_input=json.dumps(older)), message(receive_count=2))
    assert isinstance(claim, Claim)
    assert claim.lease.input.capacity == "FARGATE"
