"""Each rule of the lease is one conditional write, which only its owner may make."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from longhaul.core import transitions
from longhaul.core.claim import next_attempt
from longhaul.core.errors import LeaseChangedError, NoFreeSlotError
from longhaul.core.lease import AttemptId, Lease, Owed, RecordedResult, State
from longhaul.core.pace import Pace, SlotUse
from longhaul.core.settlement import reopened
from longhaul.core.store.item import TERMINAL_TTL
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.slots import DynamoSlots
from longhaul.core.verdict import OutcomeClass
from tests.builders import NOW, OUTPUT, changed, message, running, stage, there
from tests.contract.conftest import NUMBERS, STAGE, Aws, after, other, ttl_of


def refused(write: Callable[[Any], object], change: Any) -> Lease | None:
    """The row that is there instead, which is not the writer's."""
    with pytest.raises(LeaseChangedError) as lost:
        write(change)
    return lost.value.current


def test_claimed_lease_reads_back_as_written(leases: DynamoLeases, claimed: Lease) -> None:
    assert leases.load(claimed.key) == claimed
    assert leases.load_many([claimed.key, claimed.key, "main#absent"]) == {claimed.key: claimed}
    assert leases.load("main#absent") is None


def test_repeated_claim_succeeds_and_takes_one_slot(
    leases: DynamoLeases, slots: DynamoSlots, claimed: Lease
) -> None:
    leases.apply(transitions.claim(None, claimed, STAGE))
    assert slots.room(STAGE, NOW).free == 1


def test_only_a_newer_receive_is_adopted(leases: DynamoLeases, claimed: Lease) -> None:
    adopted = leases.report(
        transitions.adopt(claimed, message(receipt_handle="handle-3", receive_count=3))
    )
    assert (adopted.receive.receipt_handle, adopted.receive.receive_count) == ("handle-3", 3)
    assert (
        refused(
            leases.report,
            transitions.adopt(claimed, message(receipt_handle="handle-2", receive_count=2)),
        )
        == adopted
    )


def test_hand_over_clears_only_the_handle_that_it_names(
    leases: DynamoLeases, claimed: Lease
) -> None:
    assert claimed.receive.receipt_handle is not None
    assert (
        leases.report(
            transitions.hand_over(claimed.id, claimed.receive.receipt_handle)
        ).receive.receipt_handle
        is None
    )
    leases.report(transitions.adopt(claimed, message(receipt_handle="handle-2", receive_count=2)))
    refused(leases.report, transitions.hand_over(claimed.id, claimed.receive.receipt_handle))


def test_first_task_to_register_keeps_the_job_and_may_register_again(
    leases: DynamoLeases, claimed: Lease
) -> None:
    leases.report(transitions.register_task(claimed.id, "arn:task/1", NOW))
    assert (
        leases.report(transitions.register_task(claimed.id, "arn:task/1", NOW)).attempt.task_arn
        == "arn:task/1"
    )
    refused(leases.report, transitions.register_task(claimed.id, "arn:task/2", NOW))


def test_progress_and_beats_of_the_owner_are_stored(leases: DynamoLeases, claimed: Lease) -> None:
    leases.report(
        transitions.report_progress(claimed.id, {"fraction": 0.25, "phase": "running"}, NOW)
    )
    beaten = leases.report(
        transitions.beat(claimed, NOW + timedelta(seconds=15), NOW + timedelta(minutes=2))
    )
    assert (beaten.attempt.progress, beaten.attempt.progress_at, beaten.attempt.beats) == (
        {"fraction": 0.25, "phase": "running"},
        NOW,
        1,
    )
    assert leases.report(transitions.report_progress(claimed.id, {}, NOW)).attempt.progress == {}


@pytest.mark.parametrize("stale", ["older attempt", "older run", "settled"])
def test_attempt_without_the_lease_writes_nothing(
    leases: DynamoLeases, claimed: Lease, stale: str
) -> None:
    attempt = claimed.id
    match stale:
        case "older attempt":
            attempt = AttemptId(claimed.key, claimed.run, claimed.attempt.number - 1)
        case "older run":
            attempt = AttemptId(claimed.key, claimed.run - 1, claimed.attempt.number)
        case _:
            leases.apply(transitions.settle(claimed, after(claimed, OutcomeClass.FAILED)))
    before = leases.load(claimed.key)
    writes = (
        lambda: leases.report(
            transitions.beat(changed(claimed, run=attempt.run, attempt=attempt.attempt), NOW, NOW)
        ),
        lambda: leases.report(
            transitions.adopt(
                changed(claimed, run=attempt.run, attempt=attempt.attempt), message(receive_count=9)
            )
        ),
        lambda: leases.report(transitions.register_task(attempt, "arn:task", NOW)),
        lambda: leases.report(transitions.report_progress(attempt, {"fraction": 1}, NOW)),
        lambda: leases.report(transitions.record_result(attempt, RecordedResult(1, "failed", "x"))),
        lambda: leases.report(transitions.commit(attempt, OUTPUT)),
        lambda: leases.report(transitions.mark_published(attempt, NOW)),
    )
    for write in writes:
        with pytest.raises(LeaseChangedError) as lost:
            write()
        assert lost.value.current == before
    assert leases.load(claimed.key) == before


def test_run_takes_one_commit(leases: DynamoLeases, claimed: Lease) -> None:
    assert leases.report(transitions.commit(claimed.id, OUTPUT)).attempt.output == OUTPUT
    assert (
        leases.report(transitions.commit(claimed.id, OUTPUT)).attempt.output == OUTPUT
    )  # a repetition
    refused(leases.report, transitions.commit(claimed.id, replace(OUTPUT, files=3)))


def test_failure_does_not_overrule_a_commit(leases: DynamoLeases, claimed: Lease) -> None:
    leases.report(transitions.commit(claimed.id, OUTPUT))
    assert (
        there(
            refused(leases.apply, transitions.settle(claimed, after(claimed, OutcomeClass.FAILED)))
        ).attempt.output
        == OUTPUT
    )
    refused(
        leases.report, transitions.record_result(claimed.id, RecordedResult(1, "failed", "late"))
    )


def test_progress_written_between_look_and_settle_is_kept(
    leases: DynamoLeases, claimed: Lease
) -> None:
    leases.report(transitions.report_progress(claimed.id, {"fraction": 0.5}, NOW))
    leases.apply(transitions.settle(claimed, after(claimed, OutcomeClass.FAILED)))
    row = there(leases.load(claimed.key))
    assert (row.state, row.attempt.progress) == (State.RELEASED, {"fraction": 0.5})


def test_debts_are_struck_off_in_order_and_a_repetition_changes_nothing(
    leases: DynamoLeases, claimed: Lease
) -> None:
    ended = succeeded(leases, claimed)
    published = leases.apply(transitions.strike(ended, Owed.PUBLISH, NOW))
    assert (published.owed, published.attempt.published_at) == ((Owed.DELETE,), NOW)
    assert leases.apply(transitions.strike(ended, Owed.PUBLISH, NOW)) == published
    # It is still owed, and this row is an earlier one.
    refused(leases.apply, transitions.strike(ended, Owed.DELETE, NOW))
    assert leases.apply(transitions.strike(published, Owed.DELETE, NOW)).owed == ()
    assert leases.load(claimed.key) == leases.apply(transitions.strike(published, Owed.DELETE, NOW))


def test_what_the_next_run_of_a_job_does_not_owe_was_not_struck_off_of_the_one_before(
    leases: DynamoLeases, claimed: Lease
) -> None:
    ended = after(claimed, OutcomeClass.FAILED)
    owing = changed(ended, owed=(Owed.DELETE,))
    leases.apply(transitions.settle(claimed, owing))
    done = leases.apply(transitions.strike(owing, Owed.DELETE, NOW))
    following = running(run=claimed.run + 1)
    leases.apply(transitions.claim(done, following, STAGE))
    failed_again = changed(after(following, OutcomeClass.FAILED), owed=())
    leases.apply(transitions.settle(following, failed_again))
    assert failed_again.state is owing.state
    assert refused(leases.apply, transitions.strike(owing, Owed.DELETE, NOW)) == failed_again


def test_of_two_that_miss_a_message_one_notes_it(leases: DynamoLeases, claimed: Lease) -> None:
    leases.apply(transitions.settle(claimed, after(claimed, OutcomeClass.FAILED)))
    row = there(leases.load(claimed.key))
    second = timedelta(seconds=1)
    for n in range(2):  # without an earlier note, and with one
        at = NOW + 2 * n * second
        noted = leases.apply(transitions.note_seen(row, at))
        assert leases.apply(transitions.note_seen(row, at)) == noted  # the SDK's second try
        refused(leases.apply, transitions.note_seen(row, at + second))
        row = noted


def succeeded(leases: DynamoLeases, claimed: Lease) -> Lease:
    """The row once its attempt has committed and settled; it owes the rest."""
    committed = leases.report(transitions.commit(claimed.id, OUTPUT))
    ended = after(committed, OutcomeClass.SUCCEEDED)
    leases.apply(transitions.settle(committed, ended))
    return ended


@pytest.mark.parametrize("cancels", [1, 2])
def test_new_run_is_refused_when_the_job_was_cancelled_since_its_row_was_read(
    aws: Aws, leases: DynamoLeases, claimed: Lease, cancels: int
) -> None:
    cancelled = after(claimed, OutcomeClass.PERMANENT)
    leases.apply(transitions.settle(claimed, cancelled))
    for _ in range(cancels):
        read = cancelled
        aws.clock.sleep(0.002)
        cancelled = leases.request_cancel(claimed.key, "main")
    assert (cancelled.state, cancelled.cancel_requested_at) == (State.DEAD, None)
    rerun = changed(claimed, run=claimed.run + 1, attempt=2, cancelled_at=read.cancelled_at)
    assert refused(leases.apply, transitions.claim(read, rerun, STAGE)) == cancelled
    rerun = replace(rerun, cancelled_at=cancelled.cancelled_at)
    leases.apply(transitions.claim(cancelled, rerun, STAGE))
    assert leases.load(claimed.key) == rerun


def test_of_two_publishers_that_look_again_one_goes_on(
    leases: DynamoLeases, claimed: Lease
) -> None:
    ended = succeeded(leases, claimed)
    first = leases.apply(transitions.note_gone(ended, NOW))
    assert first.attempt.gone_at == NOW
    assert leases.load(claimed.key) == first
    refused(leases.apply, transitions.note_gone(ended, NOW + timedelta(seconds=1)))
    later = NOW + timedelta(minutes=30)
    second = leases.apply(transitions.note_gone(first, later))
    assert leases.apply(transitions.note_gone(first, later)) == second  # a repetition
    refused(leases.apply, transitions.note_gone(first, later + timedelta(seconds=1)))


def test_kept_row_lives_as_long_as_one_that_ended_now_and_an_unfinished_one_for_good(
    leases: DynamoLeases, claimed: Lease, aws: Aws
) -> None:
    later = NOW + timedelta(days=7)
    leases.keep(claimed.key, later)
    leases.keep("main#nobody", later)
    assert (ttl_of(aws, claimed.key), ttl_of(aws, "main#nobody")) == (None, None)
    leases.apply(transitions.settle(claimed, after(claimed, OutcomeClass.PERMANENT)))
    for owed in (Owed.DEAD_LETTER, Owed.DELETE):
        row = leases.load(claimed.key)
        assert row
        leases.apply(transitions.strike(row, owed, NOW))
    before = leases.load(claimed.key)
    leases.keep(claimed.key, later)
    assert ttl_of(aws, claimed.key) == int((later + TERMINAL_TTL).timestamp())
    leases.keep(claimed.key, NOW)
    assert ttl_of(aws, claimed.key) == int((later + TERMINAL_TTL).timestamp())
    assert leases.load(claimed.key) == before


def test_published_output_is_neither_noted_as_gone_nor_cleared(
    leases: DynamoLeases, claimed: Lease
) -> None:
    committed = leases.report(transitions.commit(claimed.id, OUTPUT))
    leases.report(transitions.mark_published(claimed.id, NOW))
    ended = after(committed, OutcomeClass.SUCCEEDED)  # the mark came after it was read
    leases.apply(transitions.settle(committed, ended))
    void = reopened(ended, NUMBERS, NOW, random.Random(1))
    for change in (transitions.note_gone(ended, NOW), transitions.reopen(ended, void)):
        assert there(refused(leases.apply, change)).attempt.published_at == NOW


def test_job_cancelled_between_attempts_ends_without_another_attempt(
    leases: DynamoLeases, claimed: Lease
) -> None:
    released = after(claimed, OutcomeClass.FAILED)
    leases.apply(transitions.settle(claimed, released))
    cancelled = replace(released, state=State.CANCELLED, owed=(Owed.DELETE,))
    leases.apply(transitions.end_waiting(released, cancelled))
    assert leases.load(claimed.key) == cancelled
    leases.apply(transitions.end_waiting(released, cancelled))  # a repetition
    refused(leases.apply, transitions.end_waiting(released, replace(cancelled, owed=())))


def test_want_of_room_halves_the_limit_once_a_minute_and_each_calm_minute_adds_a_half(
    slots: DynamoSlots,
) -> None:
    wide = stage(slots=8)
    minute = timedelta(seconds=60)
    slots.lower_limit(wide, NOW)
    slots.lower_limit(wide, NOW)
    assert slots.room(wide, NOW).free == 4
    slots.lower_limit(wide, NOW + minute)
    assert slots.room(wide, NOW + minute).free == 2
    assert [slots.room(wide, NOW + n * minute).free for n in (2, 2, 3, 4, 5)] == [3, 3, 5, 8, 8]
    assert slots.room(wide, NOW).starts_per_s is None


def test_only_a_copy_that_renews_the_message_is_adopted_with_a_lower_count(
    leases: DynamoLeases, claimed: Lease
) -> None:
    worn_out = leases.report(
        transitions.adopt(claimed, message(receipt_handle="handle-900", receive_count=900))
    )
    renewed = leases.report(transitions.adopt(worn_out, message(message_id="m-2", renews="m-1")))
    assert (
        renewed.receive.message_id,
        renewed.receive.receive_count,
        renewed.receive.renews,
    ) == (
        "m-2",
        1,
        "m-1",
    )
    refused(
        leases.report, transitions.adopt(worn_out, message(message_id="m-3", renews="m-1"))
    )  # a second copy


def test_cancel_mark_refuses_claims_and_commits(leases: DynamoLeases, claimed: Lease) -> None:
    assert leases.request_cancel(claimed.key, "main").cancel_requested_at
    refused(leases.report, transitions.commit(claimed.id, OUTPUT))
    released = replace(after(claimed, OutcomeClass.FAILED), cancel_requested_at=None)
    leases.apply(transitions.settle(claimed, released))
    again = next_attempt(released, message(receive_count=2), NUMBERS, NOW)
    refused(leases.apply, transitions.claim(released, again, STAGE))


def test_of_two_cancels_at_once_the_later_time_stays(
    leases: DynamoLeases, claimed: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one writes last: the SDK has repeated it, after an answer that was lost."""
    read = leases.load(claimed.key)
    later = leases.request_cancel(claimed.key, "main")
    assert later.cancelled_at
    with monkeypatch.context() as patch:
        rows, load = iter([read]), leases.load
        earlier = later.cancelled_at - timedelta(seconds=5)
        patch.setattr(leases, "load", lambda key: next(rows, None) or load(key))
        patch.setattr(leases, "aws_time", lambda: earlier)
        leases.request_cancel(claimed.key, "main")
    row = leases.load(claimed.key)
    assert row
    assert row.cancelled_at
    assert row.cancelled_at >= later.cancelled_at


def test_claim_that_meets_a_cancel_mark_fails_with_the_mark(leases: DynamoLeases) -> None:
    mark = leases.request_cancel(running().key, "main")
    assert refused(leases.apply, transitions.claim(None, running(), STAGE)) == mark


def test_blocked_time_runs_from_free_slots_with_messages_to_a_claim_or_an_empty_queue(
    leases: DynamoLeases, slots: DynamoSlots, claimed: Lease
) -> None:
    def blocked_at(minutes: int, *, waiting: bool = True) -> float:
        return slots.blocked_s(STAGE, waiting=waiting, now=NOW + timedelta(minutes=minutes))

    assert [blocked_at(0), blocked_at(5), blocked_at(20)] == [0, 300, 1200]
    assert [blocked_at(25, waiting=False), blocked_at(30), blocked_at(35)] == [0, 0, 300]
    leases.apply(transitions.claim(None, replace(claimed, key="main#other"), STAGE))
    assert [blocked_at(40), blocked_at(45)] == [0, 0]  # no slot is free, so nothing is blocked


def test_paused_stage_starts_nothing_until_it_is_resumed(
    leases: DynamoLeases, slots: DynamoSlots, claimed: Lease
) -> None:
    slots.pause(STAGE, NOW)
    slots.pause(STAGE, NOW + timedelta(hours=1))
    assert (slots.room(STAGE, NOW).free, slots.use(STAGE).paused_at) == (0, NOW)
    assert slots.blocked_s(STAGE, waiting=True, now=NOW) == 0
    with pytest.raises(NoFreeSlotError):
        leases.apply(transitions.claim(None, other(claimed, 2), STAGE))
    leases.apply(transitions.settle(claimed, after(claimed, OutcomeClass.FAILED)))
    assert slots.use(STAGE).running == 0

    slots.resume(STAGE, NOW)
    slots.resume(STAGE, NOW)
    leases.apply(transitions.claim(None, other(claimed, 2), STAGE))
    assert slots.use(STAGE) == SlotUse(running=1, slots=2)


def test_a_pause_is_no_gap_between_claims(
    leases: DynamoLeases, slots: DynamoSlots, claimed: Lease
) -> None:
    pace = Pace(NOW, gap_s=20)
    leases.apply(transitions.claim(None, other(claimed, 2), STAGE, pace))
    slots.pause(STAGE, NOW)
    assert slots.room(STAGE, NOW).pace == pace
    later = NOW + timedelta(hours=1)
    slots.resume(STAGE, later)
    slots.resume(STAGE, later + timedelta(hours=1))
    assert slots.room(STAGE, later).pace == replace(pace, claimed_at=later)


def test_operators_slots_bind_claims_until_the_deployed_number_is_set(
    leases: DynamoLeases, slots: DynamoSlots, claimed: Lease
) -> None:
    slots.lower_limit(STAGE, NOW)
    slots.set_slots(STAGE, 3)
    assert (slots.use(STAGE), slots.room(STAGE, NOW).free) == (SlotUse(1, 3, is_by_hand=True), 2)
    for n in (2, 3):
        leases.apply(transitions.claim(None, other(claimed, n), STAGE))
    with pytest.raises(NoFreeSlotError):
        leases.apply(transitions.claim(None, other(claimed, 4), stage(slots=9)))
    assert slots.use(stage(slots=9)).slots == 3, "whatever is deployed"

    slots.set_slots(STAGE, STAGE.slots)
    assert slots.use(STAGE) == SlotUse(running=3, slots=2)
    with pytest.raises(NoFreeSlotError):
        leases.apply(transitions.claim(None, other(claimed, 4), STAGE))


def test_throttles_pace_the_claims_and_leave_the_limit(
    leases: DynamoLeases, slots: DynamoSlots
) -> None:
    """Of a hundred throttles in a second the rate falls once."""
    wide = stage(slots=200)
    leases.apply(transitions.claim(None, running(), wide, Pace(NOW, 1.0)))
    for n in range(3):
        slots.slow_down(wide, NOW + n * timedelta(milliseconds=300))

    soon = NOW + timedelta(seconds=0.1)
    room = slots.room(wide, soon)
    assert (room.slots, room.free, room.starts_per_s) == (200, 5, pytest.approx(50.1))
    assert room.gap_s(soon) == pytest.approx(1 / 50.1)
    later = slots.room(wide, NOW + timedelta(minutes=1))
    assert (later.free, later.starts_per_s) == (199, None)
