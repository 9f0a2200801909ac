"""Jobs found by what they are: unfinished, or ended in a state."""

from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.domain.claim import Claim
from longhaul.domain.lease import Lease, Owed, State
from longhaul.domain.outcome import OutcomeClass
from tests.builders import NOW, running, stage
from tests.contract.conftest import Aws
from tests.contract.leases import after


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
