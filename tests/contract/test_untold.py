"""`ports.UntoldNotices` on DynamoDB."""

import random

import pytest

from longhaul.core.store.records import Records
from longhaul.notices.notice import Notice, Untold
from longhaul.notices.untold import DynamoUntold
from simulation.aws.clock import VirtualClock
from tests.builders import NOW
from tests.contract.conftest import Aws

ONE, OTHER = Notice("1", "main#a", "{}"), Notice("2", "main#b", '{"job_id": "b"}', "Other")


@pytest.fixture
def untold(aws: Aws, table: str) -> DynamoUntold:
    return DynamoUntold(
        Records(aws.client("dynamodb"), table, VirtualClock(), random.Random(0), most=1)
    )


def test_a_stage_owes_its_notices_until_they_are_struck_off(untold: DynamoUntold) -> None:
    untold.owe("main", ONE, NOW)
    untold.owe("main", OTHER, NOW)
    untold.owe("clean", ONE, NOW)
    owed = sorted(untold.owed("main"), key=lambda each: each.notice.id)
    assert owed == [Untold("main", ONE, NOW), Untold("main", OTHER, NOW)]
    untold.strike(owed[0])
    assert list(untold.owed("main")) == [owed[1]]
    assert list(untold.owed("clean")) == [Untold("clean", ONE, NOW)]
