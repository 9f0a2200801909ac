"""`ports.Refusals` and `ports.Reruns` on DynamoDB."""

import random
from datetime import timedelta

import pytest

from longhaul.adapters.dynamodb.refusals import DynamoRefusals
from longhaul.adapters.dynamodb.reruns import DynamoReruns
from longhaul.domain.dead_letter import Reason, Refusal
from simulation.aws.clock import VirtualClock
from tests.builders import NOW
from tests.contract.conftest import Aws

KEY = "main#january"
REASON = Reason(kind="invalid_request", reason="timeout: too long", key=KEY)


@pytest.fixture
def refusals(aws: Aws, table: str) -> DynamoRefusals:
    return DynamoRefusals(aws.client("dynamodb"), table, VirtualClock(), random.Random(0), 100)


@pytest.fixture
def reruns(aws: Aws, table: str) -> DynamoReruns:
    return DynamoReruns(aws.client("dynamodb"), table)


def test_a_refusal_is_known_until_it_is_forgotten(refusals: DynamoRefusals) -> None:
    refusals.note_refusal(KEY, REASON, NOW)
    refusals.note_refusal(KEY, REASON, NOW)
    refusal = Refusal(REASON.kind, REASON.reason, NOW)
    assert refusals.find_refusals([KEY, "main#february", KEY]) == {KEY: refusal}
    refusals.forget_refusal(KEY, refusal)
    assert refusals.find_refusals([KEY]) == {}
    assert [refusals.was_refused(key) for key in (KEY, "main#february")] == [True, False]


def test_a_later_refusal_is_not_forgotten_with_an_earlier_one(refusals: DynamoRefusals) -> None:
    refusals.note_refusal(KEY, REASON, NOW + timedelta(seconds=1))
    refusals.forget_refusal(KEY, Refusal(REASON.kind, REASON.reason, NOW))
    refusals.forget_refusal("main#february", Refusal(REASON.kind, REASON.reason, NOW))
    assert set(refusals.find_refusals([KEY, "main#february"])) == {KEY}


def test_one_work_at_a_time_waits_to_run_again(reruns: DynamoReruns) -> None:
    for _ in range(2):
        assert reruns.take_place(KEY, 7, "a", NOW, None)
    assert not reruns.take_place(KEY, 7, "b", NOW + timedelta(days=13), NOW)


@pytest.mark.parametrize(
    ("run", "days", "cancelled"), [(8, 0, False), (7, 15, False), (7, 0, True)]
)
def test_what_waits_no_more_is_in_nobodys_way(
    reruns: DynamoReruns, run: int, days: int, *, cancelled: bool
) -> None:
    reruns.take_place(KEY, 7, "a", NOW, None)
    later = NOW + timedelta(days=days, seconds=1)
    assert reruns.take_place(KEY, run, "b", later, later if cancelled else None)
