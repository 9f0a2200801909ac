"""`ports.Backfills` on DynamoDB."""

import random

import pytest

from longhaul.adapters.dynamodb.backfills import DynamoBackfills
from longhaul.domain.backfill import Backfill
from longhaul.operations.backfill import MAX_VALUES
from simulation.aws.clock import VirtualClock
from tests.builders import NOW
from tests.contract.conftest import Aws

KEY = "main#october"


@pytest.fixture
def backfills(aws: Aws, table: str) -> DynamoBackfills:
    return DynamoBackfills(aws.client("dynamodb"), table, VirtualClock(), random.Random(0), 100)


def test_what_was_sent_is_known_once_and_in_order(backfills: DynamoBackfills) -> None:
    assert backfills.find_backfills([KEY]) == {}
    backfills.note_sent(KEY, ["02", "01"], 2, NOW)
    backfills.note_sent(KEY, ["03", "02"], 0, NOW)
    found = backfills.find_backfills([KEY, "main#november", KEY])
    assert found == {KEY: Backfill(KEY, ("01", "02", "03"), 0)}
    assert next(found[KEY].job_keys()) == "main#october/01"
    assert (found[KEY].stage, found[KEY].name) == ("main", "october")


def test_the_largest_backfill_has_room(backfills: DynamoBackfills) -> None:
    values = [f"{n:032}" for n in range(MAX_VALUES)]
    backfills.note_sent(KEY, values, 0, NOW)
    assert backfills.find_backfills([KEY])[KEY].values == tuple(values)
