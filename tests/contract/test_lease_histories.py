"""What the table keeps of a job's attempts, and how jobs are found by their state."""

import json
import random
from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.core import transitions
from longhaul.core.claim import next_attempt
from longhaul.core.descent import TreeWatch
from longhaul.core.errors import LeaseChangedError
from longhaul.core.history import KEPT
from longhaul.core.lease import Lease, Owed, State
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.core.verdict import OutcomeClass
from longhaul.operations.find import LONG_AGO
from longhaul.pipelines.tree_ends import told
from simulation.aws.cloud import FakeAws
from tests.builders import NOW, changed, message, running, stage, there
from tests.contract.conftest import NUMBERS, STAGE, Aws, after, create_leases_table, ttl_of


def test_history_keeps_the_wait_the_end_and_the_events_of_every_attempt(
    leases: DynamoLeases, claimed: Lease
) -> None:
    leases.report(transitions.register_task(claimed.id, "arn:task/1", NOW + timedelta(seconds=40)))
    leases.report(transitions.beat(claimed, NOW + timedelta(seconds=15), NOW))
    leases.report(
        transitions.report_progress(claimed.id, {"phase": "running", "fraction": 0.4}, NOW)
    )
    leases.report(transitions.hand_over(claimed.id, str(claimed.receive.receipt_handle)))
    row = leases.report(
        transitions.adopt(claimed, message(receive_count=2, receipt_handle="handle-2"))
    )
    failed = after(row, OutcomeClass.FAILED)
    leases.apply(transitions.settle(row, failed))
    again = next_attempt(failed, message(receive_count=3), NUMBERS, NOW + timedelta(minutes=2))
    leases.apply(transitions.claim(failed, again, STAGE))

    first, second = leases.history([again])[claimed.key]
    assert (first.attempt.number, first.kind, first.reason, first.state) == (
        1,
        "failed",
        "why",
        State.RELEASED,
    )
    assert (first.queued_at, first.due_at) == (claimed.receive.first_sent_at, None)
    assert (first.attempt.claimed_at, first.attempt.started_at, first.ended_at) == (
        NOW,
        NOW + timedelta(seconds=40),
        NOW,
    )
    assert (first.attempt.beats, first.attempt.hand_overs, first.attempt.adoptions) == (1, 1, 1)
    assert first.beat_times == (NOW + timedelta(seconds=15),)
    assert (first.attempt.task_arn, first.attempt.progress["fraction"]) == ("arn:task/1", 0.4)
    assert (second.attempt.number, second.state, second.ended_at) == (2, State.RUNNING, None)
    assert (second.queued_at, second.due_at) == (NOW, failed.retry_at)
    assert (
        second.attempt.beats,
        second.attempt.hand_overs,
        second.attempt.adoptions,
        second.attempt.started_at,
    ) == (0, 0, 0, None)
    assert second.beat_times == ()


def test_latest_attempts_replace_the_earliest_in_the_history(
    aws: Aws, leases: DynamoLeases, claimed: Lease
) -> None:
    row = claimed
    for _ in range(KEPT + 2):
        ended = after(row, OutcomeClass.INTERRUPTED)
        leases.apply(transitions.settle(row, ended))
        row = next_attempt(replace(ended, interruptions=0), message(), NUMBERS, NOW)
        leases.apply(transitions.claim(ended, row, STAGE))
    attempts = leases.history([row])[claimed.key]
    assert [each.attempt.number for each in attempts] == list(range(3, KEPT + 4))
    found = aws.client("dynamodb").query(
        TableName="leases",
        ConsistentRead=True,
        KeyConditionExpression="#key = :key",
        ExpressionAttributeNames={"#key": "key"},
        ExpressionAttributeValues={":key": {"S": claimed.key}},
    )["Items"]
    assert len(found) == KEPT + 1
    assert all(
        int(item["ttl"]["N"]) > NOW.timestamp() for item in found if item["item"]["S"] != "lease"
    )
    assert not any(item.keys() & {"open", "ended", "settled_at"} for item in found if "ttl" in item)


def test_histories_of_a_hundred_jobs_are_read_in_one_call(fake: FakeAws) -> None:
    leases = DynamoLeases(
        Records(
            fake.client("dynamodb"),
            create_leases_table(fake.dynamodb),
            fake.clock,
            random.Random(1),
        )
    )
    rows = [replace(running(), key=f"main#job-{n}") for n in range(100)]
    for row in rows:
        leases.apply(transitions.claim(None, row, stage(slots=1000)))
    fake.gate.counts.clear()
    assert len(leases.history(rows)) == 100
    assert fake.gate.counts == {"dynamodb.BatchGetItem": 1}


# Jobs are found by their state, through the indexes of the table.


def test_open_index_holds_a_job_until_nothing_is_owed(
    aws: Aws, leases: DynamoLeases, claimed: Lease
) -> None:
    assert list(leases.open_keys("main", "RUNNING")) == [claimed.key]
    dead = after(claimed, OutcomeClass.PERMANENT)
    leases.apply(transitions.settle(claimed, dead))
    assert list(leases.open_keys("main", "RUNNING")) == []
    assert list(leases.open_keys("main", "OWED")) == [claimed.key]
    leases.apply(
        transitions.strike(
            leases.apply(transitions.strike(dead, Owed.DEAD_LETTER, NOW)), Owed.DELETE, NOW
        )
    )
    assert list(leases.open_keys("main", "OWED")) == []
    assert there(ttl_of(aws, claimed.key)) > NOW.timestamp()


def test_open_index_holds_a_root_until_the_end_of_its_tree_is_told(
    aws: Aws, leases: DynamoLeases, claimed: Lease
) -> None:
    dead = after(claimed, OutcomeClass.PERMANENT)
    leases.apply(transitions.settle(claimed, dead))
    owing = leases.apply(transitions.strike(dead, Owed.DEAD_LETTER, NOW))
    strike = transitions.strike(owing, Owed.DELETE, NOW, watches_tree=True)
    row = leases.apply(strike)
    assert leases.load(row.key) == row
    assert list(leases.open_keys("main", "TREE")) == [row.key]
    assert list(leases.open_keys("main", "OWED")) == []

    waiting = leases.apply(transitions.watch(row, replace(TreeWatch(1), waits_for="main#x")))
    with pytest.raises(LeaseChangedError):  # another look came first
        leases.apply(transitions.watch(row, TreeWatch(1, told=1)))
    leases.apply(transitions.watch(waiting, TreeWatch(1, told=1)))
    assert list(leases.open_keys("main", "TREE")) == []
    assert there(ttl_of(aws, claimed.key)) > NOW.timestamp()


def test_watch_is_written_as_it_is_and_compared_as_its_row_has_it(
    aws: Aws, leases: DynamoLeases, claimed: Lease
) -> None:
    table, key = aws.client("dynamodb"), {"key": {"S": claimed.key}, "item": {"S": "lease"}}
    dead = after(claimed, OutcomeClass.PERMANENT)
    leases.apply(transitions.settle(claimed, dead))
    leases.apply(transitions.watch(dead, TreeWatch(1)))

    def stored() -> dict[str, object]:
        return json.loads(
            table.get_item(TableName="leases", Key=key, ConsistentRead=True)["Item"]["tree"]["S"]
        )

    assert stored() == {"ends": 1, "told": 0, "waits_for": None}
    # As a newer version writes it, which was rolled back since.
    newer = json.dumps(stored() | {"colour": "green"})
    table.update_item(
        TableName="leases",
        Key=key,
        UpdateExpression="SET tree = :newer",
        ExpressionAttributeValues={":newer": {"S": newer}},
    )
    row = there(leases.load(claimed.key))
    leases.apply(transitions.watch(row, told(TreeWatch(1))))
    assert stored()["told"] == 1


def test_ended_jobs_are_found_latest_first_until_a_new_run_begins(
    leases: DynamoLeases, claimed: Lease
) -> None:
    later = NOW + timedelta(minutes=1)
    other = running(key="main#february")
    leases.apply(transitions.claim(None, other, stage()))
    dead = after(claimed, OutcomeClass.PERMANENT)
    leases.apply(transitions.settle(claimed, dead))
    leases.apply(
        transitions.settle(other, replace(after(other, OutcomeClass.PERMANENT), settled_at=later))
    )
    assert list(leases.ended_keys("main", State.DEAD, later, LONG_AGO)) == [
        (later, other.key),
        (NOW, claimed.key),
    ]
    assert list(leases.ended_keys("main", State.DEAD, NOW, LONG_AGO)) == [(NOW, claimed.key)]
    assert list(leases.ended_keys("main", State.DEAD, later, later)) == [(later, other.key)]
    assert list(leases.ended_keys("main", State.SUCCEEDED, later, LONG_AGO)) == []
    done = leases.apply(
        transitions.strike(
            leases.apply(transitions.strike(dead, Owed.DEAD_LETTER, NOW)), Owed.DELETE, NOW
        )
    )
    assert [key for _, key in leases.ended_keys("main", State.DEAD, later, LONG_AGO)] == [
        other.key,
        claimed.key,
    ]
    again = changed(claimed, run=claimed.run + 1, attempt=2, settled_attempt=1)
    leases.apply(transitions.claim(done, again, stage()))
    assert [key for _, key in leases.ended_keys("main", State.DEAD, later, LONG_AGO)] == [other.key]


def test_ended_jobs_are_read_in_pages_without_gap_or_repetition(
    leases: DynamoLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.core.store.leases._PAGE", 2)
    ends = []
    for n in range(5):
        lease = running(key=f"main#job-{n}")
        leases.apply(transitions.claim(None, lease, stage()))
        at = NOW + timedelta(seconds=n // 2)  # two end at the same moment
        leases.apply(
            transitions.settle(lease, replace(after(lease, OutcomeClass.PERMANENT), settled_at=at))
        )
        ends.append((at, lease.key))
    found = list(leases.ended_keys("main", State.DEAD, NOW + timedelta(hours=1), LONG_AGO))
    assert sorted(found) == ends
    assert [at for at, _ in found] == sorted((at for at, _ in ends), reverse=True)
