"""What the table remembers of a job's attempts."""

import random
from dataclasses import replace
from datetime import timedelta

from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.domain.beat import BEATS_KEPT
from longhaul.domain.claim import Claim, cancelled_before_claim, next_attempt
from longhaul.domain.history import KEPT
from longhaul.domain.lease import Lease, State
from longhaul.domain.outcome import OutcomeClass
from tests.builders import NOW, message, running, stage
from tests.contract.conftest import Aws, create_leases_table
from tests.contract.leases import NUMBERS, OUTPUT, STAGE, after
from tests.fakes.aws import FakeAws


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


def test_histories_of_a_hundred_jobs_are_one_call(fake: FakeAws) -> None:
    leases = DynamoLeases(fake.client("dynamodb"), create_leases_table(fake.dynamodb), fake.clock, random.Random(1))
    rows = [replace(running(), key=f"main#job-{n}") for n in range(100)]
    for row in rows:
        leases.claim(Claim(row, replaces=None), stage(slots=1000))
    fake.gate.counts.clear()
    assert len(leases.history(rows)) == 100
    assert fake.gate.counts == {"dynamodb.BatchGetItem": 1}
