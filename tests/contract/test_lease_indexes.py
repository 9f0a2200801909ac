"""Jobs are found by their state, through the indexes of the table."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.core import transitions
from longhaul.core.claim import Claim
from longhaul.core.descent import TreeWatch, told
from longhaul.core.errors import LeaseChangedError
from longhaul.core.lease import Lease, Owed, State
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.verdict import OutcomeClass
from longhaul.operations.find import LONG_AGO
from tests.builders import NOW, changed, running, stage
from tests.contract.conftest import Aws
from tests.contract.leases import after


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
    key = {"key": {"S": claimed.key}, "item": {"S": "lease"}}
    item = aws.client("dynamodb").get_item(TableName="leases", Key=key)["Item"]
    assert int(item["ttl"]["N"]) > NOW.timestamp()


def test_open_index_holds_a_root_until_the_end_of_its_tree_is_told(
    aws: Aws, leases: DynamoLeases, claimed: Lease
) -> None:
    dead = after(claimed, OutcomeClass.PERMANENT)
    leases.apply(transitions.settle(claimed, dead))
    owing = leases.apply(transitions.strike(dead, Owed.DEAD_LETTER, NOW))
    strike = transitions.strike(owing, Owed.DELETE, NOW, watches_tree=True)
    row = leases.apply(strike)
    assert leases.load(row.key) == row
    assert list(leases.watched_keys("main")) == [row.key]
    assert list(leases.open_keys("main", "OWED")) == []

    waiting = leases.apply(transitions.watch(row, replace(TreeWatch(1), waits_for="main#x")))
    with pytest.raises(LeaseChangedError):  # another look came first
        leases.apply(transitions.watch(row, TreeWatch(1, told=1)))
    leases.apply(transitions.watch(waiting, TreeWatch(1, told=1)))
    assert list(leases.watched_keys("main")) == []
    key = {"key": {"S": claimed.key}, "item": {"S": "lease"}}
    item = aws.client("dynamodb").get_item(TableName="leases", Key=key)["Item"]
    assert int(item["ttl"]["N"]) > NOW.timestamp()


def test_watch_is_written_as_it_is_and_compared_as_its_row_has_it(
    aws: Aws, leases: DynamoLeases, claimed: Lease
) -> None:
    table, key = aws.client("dynamodb"), {"key": {"S": claimed.key}, "item": {"S": "lease"}}
    dead = after(claimed, OutcomeClass.PERMANENT)
    leases.apply(transitions.settle(claimed, dead))
    leases.apply(transitions.watch(dead, TreeWatch(1)))

    def stored() -> dict[str, object]:
        found: dict[str, object] = json.loads(
            table.get_item(TableName="leases", Key=key)["Item"]["tree"]["S"]
        )
        return found

    assert stored() == {"ends": 1, "told": 0, "waits_for": None}
    # As a newer version writes it, which was rolled back since.
    newer = json.dumps(stored() | {"colour": "green"})
    table.update_item(
        TableName="leases",
        Key=key,
        UpdateExpression="SET tree = :newer",
        ExpressionAttributeValues={":newer": {"S": newer}},
    )
    row = leases.load(claimed.key)
    assert row is not None
    leases.apply(transitions.watch(row, told(TreeWatch(1))))
    assert stored()["told"] == 1


def test_ended_jobs_are_found_latest_first_until_a_new_run_begins(
    leases: DynamoLeases, claimed: Lease
) -> None:
    later = NOW + timedelta(minutes=1)
    other = running(key="main#february")
    leases.apply(transitions.claim(Claim(other, replaces=None), stage()))
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
    leases.apply(transitions.claim(Claim(again, replaces=done), stage()))
    assert [key for _, key in leases.ended_keys("main", State.DEAD, later, LONG_AGO)] == [other.key]


def test_ended_jobs_are_read_in_pages_without_gap_or_repetition(
    leases: DynamoLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.core.store.leases._PAGE", 2)
    ends = []
    for n in range(5):
        lease = running(key=f"main#job-{n}")
        leases.apply(transitions.claim(Claim(lease, replaces=None), stage()))
        at = NOW + timedelta(seconds=n // 2)  # two end at the same moment
        leases.apply(
            transitions.settle(lease, replace(after(lease, OutcomeClass.PERMANENT), settled_at=at))
        )
        ends.append((at, lease.key))
    found = list(leases.ended_keys("main", State.DEAD, NOW + timedelta(hours=1), LONG_AGO))
    assert sorted(found) == ends
    assert [at for at, _ in found] == sorted((at for at, _ in ends), reverse=True)
