"""Each rule of the lease is one conditional write: who may, and who may not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.domain.claim import Claim, next_attempt
from longhaul.domain.errors import LeaseChangedError, NoFreeSlotError
from longhaul.domain.lease import AttemptId, Lease, Owed, RecordedResult, State
from longhaul.domain.outcome import OutcomeClass
from tests.builders import NOW, message, running, stage
from tests.contract.leases import NUMBERS, OUTPUT, STAGE, after, other


def test_a_claimed_lease_reads_back_as_it_was_written(leases: DynamoLeases, claimed: Lease) -> None:
    assert leases.load(claimed.key) == claimed
    assert leases.load_many([claimed.key, claimed.key, "main#absent"]) == {claimed.key: claimed}
    assert leases.load("main#absent") is None


def test_a_second_claim_of_a_new_job_loses_and_sees_who_won(leases: DynamoLeases, claimed: Lease) -> None:
    with pytest.raises(LeaseChangedError) as lost:
        leases.claim(Claim(replace(claimed, message_id="m-2"), replaces=None), STAGE)
    assert lost.value.current == claimed
    assert leases.free_slots(STAGE, NOW) == 1


def test_the_retry_of_ones_own_claim_is_no_loss(leases: DynamoLeases, claimed: Lease) -> None:
    leases.claim(Claim(claimed, replaces=None), STAGE)
    assert leases.free_slots(STAGE, NOW) == 1


def test_no_more_claims_than_slots_and_a_refused_claim_writes_nothing(leases: DynamoLeases, claimed: Lease) -> None:
    leases.claim(Claim(other(claimed, 2), replaces=None), STAGE)
    with pytest.raises(NoFreeSlotError):
        leases.claim(Claim(other(claimed, 3), replaces=None), STAGE)
    assert leases.load("main#job-3") is None
    assert leases.free_slots(STAGE, NOW) == 0


def test_a_settle_frees_the_slot_once_however_often_it_is_tried(leases: DynamoLeases, claimed: Lease) -> None:
    released = after(claimed, OutcomeClass.FAILED)
    leases.settle(claimed, released)
    with pytest.raises(LeaseChangedError) as lost:
        leases.settle(claimed, released)
    assert lost.value.current == released
    assert leases.free_slots(STAGE, NOW) == 2


def test_a_released_job_is_claimed_again_with_a_slot(leases: DynamoLeases, claimed: Lease) -> None:
    released = after(claimed, OutcomeClass.FAILED)
    leases.settle(claimed, released)
    retry = next_attempt(released, message(receive_count=2), NUMBERS, NOW)
    leases.claim(Claim(retry, replaces=released), STAGE)
    assert leases.load(claimed.key) == retry
    assert leases.free_slots(STAGE, NOW) == 1


def test_two_claims_of_one_released_job_cannot_both_win(leases: DynamoLeases, claimed: Lease) -> None:
    released = after(claimed, OutcomeClass.FAILED)
    leases.settle(claimed, released)
    leases.claim(Claim(next_attempt(released, message(receive_count=2), NUMBERS, NOW), replaces=released), STAGE)
    with pytest.raises(LeaseChangedError):
        leases.claim(Claim(next_attempt(released, message(message_id="m-2"), NUMBERS, NOW), replaces=released), STAGE)
    assert leases.free_slots(STAGE, NOW) == 1


def test_only_a_newer_receive_is_adopted(leases: DynamoLeases, claimed: Lease) -> None:
    adopted = leases.adopt(claimed, message(receipt_handle="handle-3", receive_count=3))
    assert (adopted.receipt_handle, adopted.receive_count) == ("handle-3", 3)
    with pytest.raises(LeaseChangedError) as lost:
        leases.adopt(claimed, message(receipt_handle="handle-2", receive_count=2))
    assert lost.value.current == adopted


def test_a_hand_over_clears_only_the_handle_that_it_means(leases: DynamoLeases, claimed: Lease) -> None:
    assert claimed.receipt_handle is not None
    assert leases.hand_over(claimed.id, claimed.receipt_handle).receipt_handle is None
    leases.adopt(claimed, message(receipt_handle="handle-2", receive_count=2))
    with pytest.raises(LeaseChangedError):
        leases.hand_over(claimed.id, claimed.receipt_handle)


def test_the_first_task_to_register_has_the_job_and_may_say_so_again(leases: DynamoLeases, claimed: Lease) -> None:
    leases.register_task(claimed.id, "arn:task/1", NOW)
    assert leases.register_task(claimed.id, "arn:task/1", NOW).task_arn == "arn:task/1"
    with pytest.raises(LeaseChangedError):
        leases.register_task(claimed.id, "arn:task/2", NOW)


def test_progress_and_beats_are_stored_for_the_owner(leases: DynamoLeases, claimed: Lease) -> None:
    leases.report_progress(claimed.id, {"fraction": 0.25, "phase": "running"}, NOW)
    beaten = leases.beat(claimed, NOW + timedelta(seconds=15), NOW + timedelta(minutes=2))
    assert (beaten.progress, beaten.progress_at, beaten.beats) == ({"fraction": 0.25, "phase": "running"}, NOW, 1)
    assert leases.report_progress(claimed.id, {}, NOW).progress == {}


@pytest.mark.parametrize("stale", ["older attempt", "older run", "settled"])
def test_who_does_not_own_the_lease_writes_nothing(leases: DynamoLeases, claimed: Lease, stale: str) -> None:
    attempt = claimed.id
    match stale:
        case "older attempt":
            attempt = AttemptId(claimed.key, claimed.run, claimed.attempt - 1)
        case "older run":
            attempt = AttemptId(claimed.key, claimed.run - 1, claimed.attempt)
        case _:
            leases.settle(claimed, after(claimed, OutcomeClass.FAILED))
    before = leases.load(claimed.key)
    writes = (
        lambda: leases.beat(replace(claimed, run=attempt.run, attempt=attempt.attempt), NOW, NOW),
        lambda: leases.adopt(replace(claimed, run=attempt.run, attempt=attempt.attempt), message(receive_count=9)),
        lambda: leases.register_task(attempt, "arn:task", NOW),
        lambda: leases.report_progress(attempt, {"fraction": 1}, NOW),
        lambda: leases.record_result(attempt, RecordedResult(1, "failed", "x")),
        lambda: leases.commit(attempt, OUTPUT),
        lambda: leases.mark_published(attempt, NOW),
    )
    for write in writes:
        with pytest.raises(LeaseChangedError) as lost:
            write()
        assert lost.value.current == before
    assert leases.load(claimed.key) == before


def test_one_commit_per_run(leases: DynamoLeases, claimed: Lease) -> None:
    assert leases.commit(claimed.id, OUTPUT).output == OUTPUT
    assert leases.commit(claimed.id, OUTPUT).output == OUTPUT  # the retry of one's own
    with pytest.raises(LeaseChangedError):
        leases.commit(claimed.id, replace(OUTPUT, files=3))


def test_a_failure_never_overrules_a_commit(leases: DynamoLeases, claimed: Lease) -> None:
    leases.commit(claimed.id, OUTPUT)
    with pytest.raises(LeaseChangedError) as lost:
        leases.settle(claimed, after(claimed, OutcomeClass.FAILED))
    assert lost.value.current is not None
    assert lost.value.current.output == OUTPUT
    with pytest.raises(LeaseChangedError):
        leases.record_result(claimed.id, RecordedResult(1, "failed", "late"))


def test_progress_written_between_look_and_settle_is_kept(leases: DynamoLeases, claimed: Lease) -> None:
    leases.report_progress(claimed.id, {"fraction": 0.5}, NOW)
    leases.settle(claimed, after(claimed, OutcomeClass.FAILED))
    row = leases.load(claimed.key)
    assert row is not None
    assert (row.state, row.progress) == (State.RELEASED, {"fraction": 0.5})


def test_what_is_owed_is_struck_off_in_order_and_twice_is_harmless(leases: DynamoLeases, claimed: Lease) -> None:
    committed = leases.commit(claimed.id, OUTPUT)
    ended = after(committed, OutcomeClass.SUCCEEDED)
    leases.settle(committed, ended)
    published = leases.strike(ended, Owed.PUBLISH, NOW)
    assert (published.owed, published.published_at) == ((Owed.DELETE,), NOW)
    assert leases.strike(ended, Owed.PUBLISH, NOW) == published
    assert leases.strike(published, Owed.DELETE, NOW).owed == ()
    assert leases.load(claimed.key) == leases.strike(published, Owed.DELETE, NOW)


def test_a_new_run_does_not_wipe_what_the_old_one_owes(leases: DynamoLeases, claimed: Lease) -> None:
    dead = after(claimed, OutcomeClass.PERMANENT)
    leases.settle(claimed, dead)
    rerun = replace(claimed, run=claimed.run + 1, attempt=2)
    with pytest.raises(LeaseChangedError):
        leases.claim(Claim(rerun, replaces=dead), STAGE)
    finished = leases.strike(leases.strike(dead, Owed.DEAD_LETTER, NOW), Owed.DELETE, NOW)
    leases.claim(Claim(rerun, replaces=finished), STAGE)
    assert leases.load(claimed.key) == rerun


def test_a_void_commit_is_cleared_and_the_job_runs_again(leases: DynamoLeases, claimed: Lease) -> None:
    committed = leases.commit(claimed.id, OUTPUT)
    ended = after(committed, OutcomeClass.SUCCEEDED)
    leases.settle(committed, ended)
    reopened = leases.reopen(ended, NOW)
    assert (reopened.state, reopened.output, reopened.owed) == (State.RELEASED, None, ())
    assert leases.load(claimed.key) == reopened


def test_a_job_cancelled_between_attempts_ends_without_one(leases: DynamoLeases, claimed: Lease) -> None:
    released = after(claimed, OutcomeClass.FAILED)
    leases.settle(claimed, released)
    cancelled = replace(released, state=State.CANCELLED, owed=(Owed.DELETE,))
    leases.end_waiting(released, cancelled)
    assert leases.load(claimed.key) == cancelled
    leases.end_waiting(released, cancelled)  # the retry of one's own
    with pytest.raises(LeaseChangedError):
        leases.end_waiting(released, replace(cancelled, owed=()))


def test_a_throttle_halves_the_limit_once_a_minute_and_each_calm_minute_adds_one(leases: DynamoLeases) -> None:
    wide = stage(slots=8)
    minute = timedelta(seconds=60)
    leases.throttled(wide, NOW)
    leases.throttled(wide, NOW)
    assert leases.free_slots(wide, NOW) == 4
    leases.throttled(wide, NOW + minute)
    assert leases.free_slots(wide, NOW + minute) == 2
    assert [leases.free_slots(wide, NOW + n * minute) for n in (2, 2, 3, 4, 5, 6, 7, 8)] == [3, 3, 4, 5, 6, 7, 8, 8]


def test_the_limit_never_falls_below_one_and_binds_claims(leases: DynamoLeases) -> None:
    for n in range(5):
        leases.throttled(STAGE, NOW + n * timedelta(seconds=60))
    leases.claim(Claim(running(), replaces=None), STAGE)
    with pytest.raises(NoFreeSlotError):
        leases.claim(Claim(other(running(), 2), replaces=None), STAGE)


def test_only_the_copy_that_renews_the_rows_message_is_adopted_with_a_lower_count(
    leases: DynamoLeases, claimed: Lease
) -> None:
    worn_out = leases.adopt(claimed, message(receipt_handle="handle-900", receive_count=900))
    renewed = leases.adopt(worn_out, message(message_id="m-2", renews="m-1"))
    assert (renewed.message_id, renewed.receive_count, renewed.former_message_ids) == ("m-2", 1, ("m-1",))
    with pytest.raises(LeaseChangedError):
        leases.adopt(worn_out, message(message_id="m-3", renews="m-1"))  # a second copy of the same message


def test_a_cancel_mark_keeps_out_claims_and_commits(leases: DynamoLeases, claimed: Lease) -> None:
    assert leases.request_cancel(claimed.key, "main", NOW).cancel_requested_at == NOW
    with pytest.raises(LeaseChangedError):
        leases.commit(claimed.id, OUTPUT)
    released = replace(after(claimed, OutcomeClass.FAILED), cancel_requested_at=None)
    leases.settle(claimed, released)
    with pytest.raises(LeaseChangedError):
        leases.claim(Claim(next_attempt(released, message(receive_count=2), NUMBERS, NOW), replaces=released), STAGE)


def test_a_mark_before_the_claim_makes_the_claim_look_again(leases: DynamoLeases) -> None:
    mark = leases.request_cancel(running().key, "main", NOW)
    assert leases.request_cancel(running().key, "main", NOW) == mark
    with pytest.raises(LeaseChangedError) as lost:
        leases.claim(Claim(running(), replaces=None), STAGE)
    assert lost.value.current == mark


def test_messages_that_wait_beside_free_slots_are_timed_until_a_claim_or_an_empty_queue(
    leases: DynamoLeases, claimed: Lease
) -> None:
    def blocked_at(minutes: int, *, waiting: bool = True) -> float:
        return leases.blocked_s(STAGE, waiting=waiting, now=NOW + timedelta(minutes=minutes))

    assert [blocked_at(0), blocked_at(5), blocked_at(20)] == [0, 300, 1200]
    assert [blocked_at(25, waiting=False), blocked_at(30), blocked_at(35)] == [0, 0, 300]
    leases.claim(Claim(replace(claimed, key="main#other"), replaces=None), STAGE)
    assert [blocked_at(40), blocked_at(45)] == [0, 0]  # no slot is free: that is no blockage
