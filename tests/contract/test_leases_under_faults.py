"""The leases table when DynamoDB answers late, in pieces, or not at all."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from longhaul.adapters.dynamodb_leases import DynamoLeases
from longhaul.adapters.lease_item import key_of
from longhaul.domain.claim import Claim
from longhaul.domain.lease import CommittedOutput, Lease
from tests.builders import NOW, message, running, stage
from tests.contract.conftest import create_leases_table
from tests.contract.leases import STAGE
from tests.fakes.aws import FakeAws
from tests.fakes.faults import lost_answer
from tests.fakes.service import Answer, Call, Proceed

SLOTS = {"key": {"S": "slots#main"}, "item": {"S": "slots"}}


@pytest.fixture
def leases(fake: FakeAws) -> DynamoLeases:
    return DynamoLeases(fake.client("dynamodb"), create_leases_table(fake.dynamodb), fake.clock, random.Random(1))


def loses_the_answer(call: Call, proceed: Proceed) -> Answer:
    proceed()
    raise lost_answer(call)


def tries_again(call: Call, proceed: Proceed) -> Answer:
    """As the SDK does when the first answer was lost."""
    del call
    proceed()
    return proceed()


def test_keys_left_unprocessed_are_asked_for_again(fake: FakeAws, leases: DynamoLeases) -> None:
    rows = [running(key=f"main#job-{n}") for n in range(5)]
    for row in rows:
        leases.claim(Claim(row, replaces=None), stage(slots=9))
    fake.dynamodb.batch_size = 2
    before = fake.clock.now()
    assert leases.load_many([row.key for row in rows]) == {row.key: row for row in rows}
    assert fake.gate.counts["dynamodb.BatchGetItem"] == 3
    assert fake.clock.now() > before


def test_the_index_is_read_page_by_page_and_a_little_late(fake: FakeAws, leases: DynamoLeases) -> None:
    fake.dynamodb.page_size = 2
    fake.dynamodb.index_lag_s = lambda: 1.0
    keys = [f"main#job-{n}" for n in range(5)]
    for key in keys:
        leases.claim(Claim(running(key=key), replaces=None), stage(slots=9))
    assert list(leases.open_keys("main", "RUNNING")) == []
    fake.clock.advance(1)
    assert list(leases.open_keys("main", "RUNNING")) == keys


def test_a_claim_that_meets_another_on_the_counter_is_tried_again(fake: FakeAws, leases: DynamoLeases) -> None:
    fake.dynamodb.make_busy("leases", SLOTS, times=3)
    leases.claim(Claim(running(), replaces=None), STAGE)
    assert leases.load(running().key) == running()
    assert fake.gate.counts["dynamodb.TransactWriteItems"] == 4


def test_a_claim_that_meets_others_for_ever_gives_up_and_writes_nothing(fake: FakeAws, leases: DynamoLeases) -> None:
    fake.dynamodb.make_busy("leases", SLOTS, times=1000)
    with pytest.raises(ClientError, match="TransactionConflict"):
        leases.claim(Claim(running(), replaces=None), STAGE)
    assert leases.load(running().key) is None


def test_a_claim_whose_answer_was_lost_is_won_by_trying_again_and_takes_one_slot(
    fake: FakeAws, leases: DynamoLeases
) -> None:
    checks, fake.gate.around = fake.gate.around, loses_the_answer
    with pytest.raises(ReadTimeoutError):
        leases.claim(Claim(running(), replaces=None), STAGE)
    fake.gate.around = checks
    leases.claim(Claim(running(), replaces=None), STAGE)
    assert leases.free_slots(STAGE, NOW) == 1


def test_a_claim_that_the_sdk_repeats_takes_one_slot(fake: FakeAws, leases: DynamoLeases) -> None:
    fake.gate.around = tries_again
    leases.claim(Claim(running(), replaces=None), STAGE)
    assert leases.free_slots(STAGE, NOW) == 1


def test_a_commit_that_the_sdk_repeats_is_one_commit(fake: FakeAws, leases: DynamoLeases, claimed: Lease) -> None:
    output = CommittedOutput(attempt=1, pending_ref="longhaul/pending/x", prefix="s3://b/o/", files=2, size_bytes=10)
    fake.gate.around = tries_again
    assert leases.commit(claimed.id, output).output == output


def test_a_lease_that_outgrows_its_item_is_refused_and_stays_as_it_was(
    fake: FakeAws, leases: DynamoLeases, claimed: Lease
) -> None:
    with pytest.raises(ClientError, match="Item size"):
        leases.report_progress(claimed.id, {"text": "x" * 410_000}, NOW)
    assert leases.load(claimed.key) == claimed
    item = fake.dynamodb.get_item(TableName="leases", Key=key_of(claimed.key))["Item"]
    assert item["open"] == {"S": "main#RUNNING"}


def test_a_weak_read_may_miss_the_last_write_and_the_claim_decides_all_the_same(
    fake: FakeAws, leases: DynamoLeases, claimed: Lease
) -> None:
    fake.dynamodb.weak_read_lag_s = 1
    assert leases.free_slots(STAGE, NOW) == 2
    leases.claim(Claim(replace(claimed, key="main#job-2"), replaces=None), STAGE)
    fake.clock.advance(1)
    assert leases.free_slots(STAGE, NOW) == 0


def test_a_beat_that_the_sdk_repeats_is_one_beat(fake: FakeAws, leases: DynamoLeases, claimed: Lease) -> None:
    row = leases.beat(claimed, NOW + timedelta(seconds=15), NOW)
    fake.gate.around = tries_again
    row = leases.beat(row, NOW + timedelta(seconds=31), NOW)
    assert (row.beats, row.beat_ages_s) == (2, (15, 31))


def test_an_adoption_that_comes_back_as_a_retry_is_no_loss(fake: FakeAws, leases: DynamoLeases, claimed: Lease) -> None:
    again = message(receipt_handle="handle-2", receive_count=2)
    fake.gate.around = tries_again
    adopted = leases.adopt(claimed, again)
    assert (adopted.receipt_handle, adopted.receive_count) == ("handle-2", 2)


def test_a_hand_over_that_comes_back_as_a_retry_is_no_loss(fake: FakeAws, leases: DynamoLeases, claimed: Lease) -> None:
    fake.gate.around = tries_again
    assert leases.hand_over(claimed.id, str(claimed.receipt_handle)).receipt_handle is None


def test_a_row_that_a_transaction_holds_is_written_a_moment_later(
    fake: FakeAws, leases: DynamoLeases, claimed: Lease
) -> None:
    fake.dynamodb.make_busy("leases", key_of(claimed.key))
    before = fake.clock.now()
    assert leases.report_progress(claimed.id, {"fraction": 0.5}, NOW).progress == {"fraction": 0.5}
    assert fake.clock.now() > before
