"""`ports.Backfills` on DynamoDB."""

import random
from datetime import timedelta

import pytest

from longhaul.adapters.dynamodb.backfills import DynamoBackfills
from longhaul.adapters.dynamodb.index import DynamoIndex
from longhaul.domain.backfill import Backfill
from longhaul.domain.tree_end import TreeWatch, told, waiting
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
    assert found == {KEY: Backfill(KEY, ("01", "02", "03"), 0, NOW)}
    assert next(found[KEY].job_keys()) == "main#october/01"
    assert (found[KEY].stage, found[KEY].name) == ("main", "october")


def test_a_command_that_began_before_a_cancel_sends_no_more(backfills: DynamoBackfills) -> None:
    second = timedelta(seconds=1)
    assert backfills.note_sent(KEY, ["01"], 1, NOW, NOW)
    backfills.note_cancel(KEY, NOW + second)
    assert not backfills.note_sent(KEY, ["02"], 0, NOW + 2 * second, NOW)
    assert backfills.find_backfills([KEY])[KEY].values == ("01", "02")  # it was sent all the same
    assert backfills.note_sent(KEY, ["02"], 0, NOW + 3 * second, NOW + 2 * second)


def test_only_the_latest_command_says_how_many_are_left(backfills: DynamoBackfills) -> None:
    later = NOW + timedelta(seconds=1)
    assert backfills.note_sent(KEY, ["01"], 2, NOW, NOW)
    assert backfills.note_sent(KEY, ["02", "03"], 0, later, later)
    assert backfills.note_sent(KEY, ["02", "04"], 1, later, NOW)
    found = backfills.find_backfills([KEY])[KEY]
    assert (found.values, found.unsent) == (("01", "02", "03", "04"), 0)


def test_the_largest_backfill_has_room(backfills: DynamoBackfills) -> None:
    values = [f"{n:032}" for n in range(MAX_VALUES)]
    backfills.note_sent(KEY, values, 0, NOW, NOW)
    assert backfills.find_backfills([KEY])[KEY].values == tuple(values)


def test_a_watch_is_raised_with_what_is_sent_and_noted_once(
    backfills: DynamoBackfills, aws: Aws, table: str
) -> None:
    index = DynamoIndex(aws.client("dynamodb"), table)

    def watch() -> TreeWatch:
        found = backfills.find_backfills([KEY])[KEY].watch
        assert found is not None
        return found

    assert backfills.note_sent(KEY, ["01"], 0, NOW, NOW, watches=True)
    first = watch()
    assert first == TreeWatch(1)
    assert list(index.watched_backfills("main")) == [KEY]
    assert list(index.watched_keys("main")) == []
    assert backfills.note_look(KEY, first, waiting(first, f"{KEY}/01"))
    assert watch() == TreeWatch(1, waits_for=f"{KEY}/01")
    backfills.watch_again(KEY, f"{KEY}/other", NOW)
    assert watch().ends == 1
    backfills.watch_again(KEY, f"{KEY}/01", NOW)
    assert watch() == TreeWatch(2)
    assert not backfills.note_look(KEY, first, told(first))
    second = watch()
    assert backfills.note_look(KEY, watch(), told(watch()))
    assert watch() == TreeWatch(2, told=2)
    assert not backfills.note_look(KEY, second, told(second))
    assert list(index.watched_backfills("main")) == []
    assert backfills.note_sent(KEY, ["02"], 0, NOW, NOW, watches=True)
    assert watch() == TreeWatch(3, told=2)
    assert list(index.watched_backfills("main")) == [KEY]


def test_one_that_is_not_there_is_not_watched(backfills: DynamoBackfills) -> None:
    backfills.watch_again(KEY, f"{KEY}/01", NOW)
    assert not backfills.note_look(KEY, TreeWatch(1), told(TreeWatch(1)))
    assert backfills.find_backfills([KEY]) == {}


def test_a_cancel_counts_until_a_later_command(backfills: DynamoBackfills) -> None:
    second = timedelta(seconds=1)
    assert backfills.note_sent(KEY, ["01"], 2, NOW, NOW)
    assert backfills.find_backfills([KEY])[KEY].is_sending
    backfills.note_cancel(KEY, NOW)
    assert not backfills.find_backfills([KEY])[KEY].is_sending
    assert backfills.note_sent(KEY, ["02"], 1, NOW + second, NOW + second)
    assert backfills.find_backfills([KEY])[KEY].is_sending
