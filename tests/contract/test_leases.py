"""Each rule of the lease is one conditional write: who may, and who may not."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.domain.beat import BEATS_KEPT
from longhaul.domain.claim import Claim, cancelled_before_claim, next_attempt
from longhaul.domain.errors import LeaseChangedError, NoFreeSlotError
from longhaul.domain.history import KEPT
from longhaul.domain.lease import AttemptId, CommittedOutput, Lease, Owed, RecordedResult, State
from longhaul.domain.outcome import OutcomeClass, Verdict, settle
from longhaul.settings import LeaseSettings
from tests.builders import NOW, message, running, stage
from tests.contract.conftest import Aws, create_leases_table
from tests.fakes.aws import FakeAws

NUMBERS = LeaseSettings()
STAGE = stage(slots=2)
OUTPUT = CommittedOutput(
    attempt=1, pending_ref="longhaul/pending/x", prefix="s3://longhaul-data/out/", files=2, size_bytes=10
)


@pytest.fixture
def leases(aws: Aws, table: str) -> DynamoLeases:
    return DynamoLeases(aws.client("dynamodb"), table, aws.clock, random.Random(1))


@pytest.fixture
def fake_leases(fake: FakeAws) -> tuple[DynamoLeases, FakeAws]:
    table = create_leases_table(fake.dynamodb)
    return DynamoLeases(fake.client("dynamodb"), table, fake.clock, random.Random(1)), fake


@pytest.fixture
def claimed(leases: DynamoLeases) -> Lease:
    leases.claim(Claim(running(), replaces=None), STAGE)
    return running()


def other(lease: Lease, n: int) -> Lease:
    return replace(lease, key=f"main#job-{n}", message_id=f"m-job-{n}")


def after(lease: Lease, kind: OutcomeClass) -> Lease:
    return settle(lease, Verdict(kind, "why"), STAGE, NUMBERS, NOW, random.Random(1)).lease


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


def test_the_times_of_the_latest_beats_are_kept_and_the_others_counted(leases: DynamoLeases, claimed: Lease) -> None:
    row, minute = claimed, timedelta(minutes=1)
    for n in range(1, BEATS_KEPT + 6):
        row = leases.beat(row, NOW + n * minute, NOW + (n + 1) * minute)
    assert (row.beats, row.lease_expires_at) == (BEATS_KEPT + 5, NOW + (BEATS_KEPT + 6) * minute)
    assert row.beat_ages_s == tuple(60 * n for n in range(6, BEATS_KEPT + 6))
    assert leases.load(claimed.key) == row
    leases.settle(row, after(row, OutcomeClass.FAILED))
    (attempt,) = leases.history([after(row, OutcomeClass.FAILED)])[claimed.key]
    assert (attempt.beats, attempt.beat_times[0], attempt.beat_times[-1]) == (65, NOW + 6 * minute, NOW + 65 * minute)


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


def test_a_void_commit_is_remembered_as_one(leases: DynamoLeases, claimed: Lease) -> None:
    committed = leases.commit(claimed.id, OUTPUT)
    leases.settle(committed, after(committed, OutcomeClass.SUCCEEDED))
    reopened = leases.reopen(after(committed, OutcomeClass.SUCCEEDED), NOW)
    (void,) = leases.history([reopened])[claimed.key]
    assert (void.state, void.kind, void.ended_at) == (State.RELEASED, "succeeded", NOW)
    assert void.reason == "the committed output's uploads were gone"


def test_every_attempt_is_remembered_with_its_wait_its_end_and_what_happened_on_the_way(
    leases: DynamoLeases, claimed: Lease
) -> None:
    leases.register_task(claimed.id, "arn:task/1", NOW + timedelta(seconds=40))
    leases.beat(claimed, NOW + timedelta(seconds=15), NOW)
    leases.report_progress(claimed.id, {"phase": "running", "fraction": 0.4}, NOW)
    leases.hand_over(claimed.id, str(claimed.receipt_handle))
    row = leases.adopt(claimed, message(receive_count=2, receipt_handle="handle-2"))
    failed = after(row, OutcomeClass.FAILED)
    leases.settle(row, failed)
    again = next_attempt(failed, message(receive_count=3), NUMBERS, NOW + timedelta(minutes=2))
    leases.claim(Claim(again, replaces=failed), STAGE)

    first, second = leases.history([again])[claimed.key]
    assert (first.attempt, first.kind, first.reason, first.state) == (1, "failed", "why", State.RELEASED)
    assert (first.queued_at, first.due_at) == (claimed.first_sent_at, None)
    assert (first.claimed_at, first.started_at, first.ended_at) == (NOW, NOW + timedelta(seconds=40), NOW)
    assert (first.beats, first.hand_overs, first.adoptions) == (1, 1, 1)
    assert first.beat_times == (NOW + timedelta(seconds=15),)
    assert (first.task_arn, first.progress["fraction"]) == ("arn:task/1", 0.4)
    assert (second.attempt, second.state, second.ended_at) == (2, State.RUNNING, None)
    assert (second.queued_at, second.due_at) == (NOW, failed.retry_at)
    assert (second.beats, second.hand_overs, second.adoptions, second.started_at) == (0, 0, 0, None)
    assert second.beat_times == ()


def test_the_size_that_ran_out_of_memory_is_remembered_and_not_the_next(leases: DynamoLeases, claimed: Lease) -> None:
    released = after(claimed, OutcomeClass.OUT_OF_MEMORY)
    leases.settle(claimed, released)
    assert (leases.history([released])[claimed.key][0].size, released.input.size) == ("small", "medium")


def test_the_latest_attempts_are_remembered_and_take_the_place_of_the_earliest(
    aws: Aws, leases: DynamoLeases, claimed: Lease
) -> None:
    row = claimed
    for _ in range(KEPT + 2):
        ended = after(row, OutcomeClass.INTERRUPTED)
        leases.settle(row, ended)
        row = next_attempt(replace(ended, interruptions=0), message(), NUMBERS, NOW)
        leases.claim(Claim(row, replaces=ended), STAGE)
    attempts = leases.history([row])[claimed.key]
    assert [each.attempt for each in attempts] == list(range(3, KEPT + 4))
    found = aws.client("dynamodb").query(
        TableName="leases",
        KeyConditionExpression="#key = :key",
        ExpressionAttributeNames={"#key": "key"},
        ExpressionAttributeValues={":key": {"S": claimed.key}},
    )["Items"]
    assert len(found) == KEPT + 1
    assert all(int(item["ttl"]["N"]) > NOW.timestamp() for item in found if item["item"]["S"] != "lease")
    assert not any(item.keys() & {"open", "root", "ended", "settled_at"} for item in found if "ttl" in item)


def test_of_a_row_that_settled_before_there_was_a_history_the_latest_attempt_is_told(leases: DynamoLeases) -> None:
    old = replace(running(), state=State.DEAD, settled_attempt=3, attempt=3, last_class="failed", settled_at=NOW)
    (only,) = leases.history([old])[old.key]
    assert (only.attempt, only.kind, only.ended_at, only.state) == (3, "failed", NOW, State.DEAD)
    assert leases.history([cancelled_before_claim("main#x", "main", NOW)]) == {"main#x": []}


def test_histories_of_a_hundred_jobs_are_one_call(fake_leases: tuple[DynamoLeases, FakeAws]) -> None:
    leases, fake = fake_leases
    rows = [replace(running(), key=f"main#job-{n}") for n in range(100)]
    for row in rows:
        leases.claim(Claim(row, replaces=None), stage(slots=1000))
    fake.gate.counts.clear()
    assert len(leases.history(rows)) == 100
    assert fake.gate.counts == {"dynamodb.BatchGetItem": 1}


def test_the_index_shows_what_is_unfinished_and_forgets_what_is_done(
    aws: Aws, leases: DynamoLeases, claimed: Lease
) -> None:
    assert list(leases.open_keys("main", "RUNNING")) == [claimed.key]
    dead = after(claimed, OutcomeClass.PERMANENT)
    leases.settle(claimed, dead)
    assert list(leases.open_keys("main", "RUNNING")) == []
    assert list(leases.open_keys("main", "OWED")) == [claimed.key]
    leases.strike(leases.strike(dead, Owed.DEAD_LETTER, NOW), Owed.DELETE, NOW)
    assert list(leases.open_keys("main", "OWED")) == []
    key = {"key": {"S": claimed.key}, "item": {"S": "lease"}}
    item = aws.client("dynamodb").get_item(TableName="leases", Key=key)["Item"]
    assert int(item["ttl"]["N"]) > NOW.timestamp()


def test_what_ended_is_found_by_stage_and_state_the_latest_first_and_a_new_run_takes_it_out(
    leases: DynamoLeases, claimed: Lease
) -> None:
    later = NOW + timedelta(minutes=1)
    other = running(key="main#february")
    leases.claim(Claim(other, replaces=None), stage())
    dead = after(claimed, OutcomeClass.PERMANENT)
    leases.settle(claimed, dead)
    leases.settle(other, replace(after(other, OutcomeClass.PERMANENT), settled_at=later))
    assert list(leases.ended_keys("main", State.DEAD, later)) == [(later, other.key), (NOW, claimed.key)]
    assert list(leases.ended_keys("main", State.DEAD, NOW)) == [(NOW, claimed.key)]
    assert list(leases.ended_keys("main", State.SUCCEEDED, later)) == []
    done = leases.strike(leases.strike(dead, Owed.DEAD_LETTER, NOW), Owed.DELETE, NOW)
    assert [key for _, key in leases.ended_keys("main", State.DEAD, later)] == [other.key, claimed.key]
    again = replace(claimed, run=claimed.run + 1, attempt=2, settled_attempt=1)
    leases.claim(Claim(again, replaces=done), stage())
    assert [key for _, key in leases.ended_keys("main", State.DEAD, later)] == [other.key]


def test_pages_of_what_ended_follow_each_other(leases: DynamoLeases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longhaul.adapters.dynamodb_indexes._PAGE", 2)
    ends = []
    for n in range(5):
        lease = running(key=f"main#job-{n}")
        leases.claim(Claim(lease, replaces=None), stage())
        at = NOW + timedelta(seconds=n // 2)  # two end at the same moment
        leases.settle(lease, replace(after(lease, OutcomeClass.PERMANENT), settled_at=at))
        ends.append((at, lease.key))
    found = list(leases.ended_keys("main", State.DEAD, NOW + timedelta(hours=1)))
    assert sorted(found) == ends
    assert [at for at, _ in found] == sorted((at for at, _ in ends), reverse=True)


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
