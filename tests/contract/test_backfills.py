"""`ports.Backfills` on DynamoDB."""

import random
from datetime import timedelta

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
    assert backfills.note_sent(KEY, ["02", "01"], 2, NOW, NOW)
    assert backfills.note_sent(KEY, ["03", "02"], 0, NOW, NOW)
    found = backfills.find_backfills([KEY, "main#november", KEY])
    assert found == {KEY: Backfill(KEY, ("01", "02", "03"), 0)}
    assert next(found[KEY].job_keys()) == "main#october/01"
    assert (found[KEY].stage, found[KEY].name) == ("main", "october")


def test_a_command_that_began_before_a_cancel_sends_no_more(backfills: DynamoBackfills) -> None:
    second = timedelta(seconds=1)
    assert backfills.note_sent(KEY, ["01"], 1, NOW, NOW)
    backfills.note_cancel(KEY, NOW + second)
    assert not backfills.note_sent(KEY, ["02"], 0, NOW + 2 * second, NOW)
    assert backfills.find_backfills([KEY])[KEY].values == ("01",)
    assert backfills.note_sent(KEY, ["02"], 0, NOW + 3 * second, NOW + 2 * second)


def test_the_largest_backfill_has_room(backfills: DynamoBackfills) -> None:
    values = [f"{n:032}" for n in range(MAX_VALUES)]
    backfills.note_sent(KEY, values, 0, NOW, NOW)
    assert backfills.find_backfills([KEY])[KEY].values == tuple(values)
