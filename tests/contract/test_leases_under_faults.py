"""The leases table while DynamoDB is late, busy, or loses responses."""

from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from longhaul.core import transitions
from longhaul.core.lease import Lease
from longhaul.core.store.item import lease_key
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.slots import DynamoSlots
from simulation.aws.cloud import FakeAws
from simulation.aws.service import Answer, Call, Proceed
from tests.builders import NOW, message, running, stage
from tests.contract.conftest import STAGE, Aws

SLOTS = {"key": {"S": "slots#main"}, "item": {"S": "slots"}}


@pytest.fixture
def aws(fake: FakeAws) -> Aws:
    """The strict fakes alone: no other engine can be made to fail."""
    return Aws(fake.client, fake.clock, fake)


def repeats_the_call(call: Call, proceed: Proceed) -> Answer:
    """As the SDK does after a lost response."""
    del call
    proceed()
    return proceed()


def test_unprocessed_keys_are_requested_again(fake: FakeAws, leases: DynamoLeases) -> None:
    rows = [running(key=f"main#job-{n}") for n in range(5)]
    for row in rows:
        leases.apply(transitions.claim(None, row, stage(slots=9)))
    fake.dynamodb.batch_size = 2
    before = fake.clock.now()
    assert leases.load_many([row.key for row in rows]) == {row.key: row for row in rows}
    assert fake.gate.counts["dynamodb.BatchGetItem"] == 3
    assert fake.clock.now() > before


def test_index_is_read_in_pages_and_lags_behind_the_table(
    fake: FakeAws, leases: DynamoLeases
) -> None:
    fake.dynamodb.page_size = 2
    fake.dynamodb.index_lag_s = lambda: 1.0
    keys = [f"main#job-{n}" for n in range(5)]
    for key in keys:
        leases.apply(transitions.claim(None, running(key=key), stage(slots=9)))
    assert list(leases.open_keys("main", "RUNNING")) == []
    fake.clock.advance(1)
    assert list(leases.open_keys("main", "RUNNING")) == keys


def test_claim_that_conflicts_on_the_slot_counter_is_tried_again(
    fake: FakeAws, leases: DynamoLeases
) -> None:
    fake.dynamodb.make_busy("leases", SLOTS, times=3)
    leases.apply(transitions.claim(None, running(), STAGE))
    assert leases.load(running().key) == running()
    assert fake.gate.counts["dynamodb.TransactWriteItems"] == 4


def test_single_writes_to_the_slots_that_meet_a_transaction_are_tried_again(
    fake: FakeAws, slots: DynamoSlots, claimed: Lease
) -> None:
    assert claimed.stage == STAGE.name
    fake.dynamodb.make_busy("leases", SLOTS, times=3)
    slots.lower_limit(STAGE, NOW)
    assert slots.room(STAGE, NOW).free == 0, "one of two slots is taken, and the limit is one"
    fake.dynamodb.make_busy("leases", SLOTS, times=3)
    assert slots.room(STAGE, NOW + timedelta(minutes=2)).free == 1
    for waiting in (True, False):
        fake.dynamodb.make_busy("leases", SLOTS, times=3)
        assert slots.blocked_s(STAGE, waiting=waiting, now=NOW + timedelta(minutes=2)) == 0


def test_claim_that_keeps_conflicting_gives_up_and_writes_nothing(
    fake: FakeAws, leases: DynamoLeases
) -> None:
    fake.dynamodb.make_busy("leases", SLOTS, times=1000)
    with pytest.raises(ClientError, match="TransactionConflict"):
        leases.apply(transitions.claim(None, running(), STAGE))
    assert leases.load(running().key) is None


def test_write_beyond_the_item_size_is_refused_and_changes_nothing(
    fake: FakeAws, leases: DynamoLeases, claimed: Lease
) -> None:
    with pytest.raises(ClientError, match="Item size"):
        leases.report(transitions.report_progress(claimed.id, {"text": "x" * 410_000}, NOW))
    assert leases.load(claimed.key) == claimed
    item = fake.dynamodb.get_item(
        TableName="leases", Key=lease_key(claimed.key), ConsistentRead=True
    )["Item"]
    assert item["open"] == {"S": "main#RUNNING"}


def test_beat_that_the_sdk_repeats_is_one_beat(
    fake: FakeAws, leases: DynamoLeases, claimed: Lease
) -> None:
    row = leases.report(transitions.beat(claimed, NOW + timedelta(seconds=15), NOW))
    fake.gate.around = repeats_the_call
    row = leases.report(transitions.beat(row, NOW + timedelta(seconds=31), NOW))
    assert (row.attempt.beats, row.attempt.beat_ages_s) == (2, (15, 31))


def test_adoption_that_the_sdk_repeats_succeeds(
    fake: FakeAws, leases: DynamoLeases, claimed: Lease
) -> None:
    again = message(receipt_handle="handle-2", receive_count=2)
    fake.gate.around = repeats_the_call
    adopted = leases.report(transitions.adopt(claimed, again))
    assert (adopted.receive.receipt_handle, adopted.receive.receive_count) == ("handle-2", 2)
