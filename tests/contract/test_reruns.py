"""`ports.Reruns` on DynamoDB."""

from datetime import timedelta

import pytest
from longhaul.adapters.dynamodb.reruns import DynamoReruns

from tests.builders import NOW
from tests.contract.conftest import Aws

KEY = "main#january"


@pytest.fixture
def reruns(aws: Aws, table: str) -> DynamoReruns:
    return DynamoReruns(aws.client("dynamodb"), table)


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
