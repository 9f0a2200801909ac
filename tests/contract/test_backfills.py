"""`ports.Backfills` on DynamoDB."""

import random
from datetime import timedelta

import pytest

from longhaul.core.descent import TreeWatch, told, waiting
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.operations.backfill import MAX_VALUES
from longhaul.pipelines.backfill import Backfill
from longhaul.pipelines.backfills import DynamoBackfills
from simulation.aws.clock import VirtualClock
from tests.builders import NOW
from tests.contract.conftest import Aws

KEY = "main#october"
SECOND = timedelta(seconds=1)


@pytest.fixture
def backfills(aws: Aws, table: str) -> DynamoBackfills:
    return DynamoBackfills(
        Records(aws.client("dynamodb"), table, VirtualClock(), random.Random(0), most=100)
    )


def test_what_is_sent_is_known_once_and_in_order(backfills: DynamoBackfills) -> None:
    assert backfills.find_backfills([KEY]) == {}
    assert backfills.note_begun(KEY, ["02", "01", "03", "04"], NOW, NOW)
    assert backfills.find_backfills([KEY])[KEY].unsent == 4
    backfills.note_sent(KEY, ["02", "01"], NOW)
    backfills.note_sent(KEY, ["03", "02"], NOW)
    found = backfills.find_backfills([KEY, "main#november", KEY])
    assert found == {KEY: Backfill(KEY, ("01", "02", "03"), ("04",), began_at=NOW)}
    assert next(found[KEY].job_keys()) == "main#october/01"
    assert (found[KEY].stage, found[KEY].name) == ("main", "october")
    backfills.note_sent(KEY, ["04"], NOW)
    assert backfills.find_backfills([KEY])[KEY].left == ()


def test_commands_have_left_what_no_other_has_sent(backfills: DynamoBackfills) -> None:
    assert backfills.note_begun(KEY, ["01", "02", "03"], NOW, NOW)
    assert backfills.note_begun(KEY, ["02", "04"], NOW, NOW + SECOND)
    backfills.note_sent(KEY, ["02"], NOW)
    assert backfills.find_backfills([KEY])[KEY].left == ("01", "03", "04")


def test_a_command_that_began_before_a_cancel_sends_no_more(backfills: DynamoBackfills) -> None:
    assert backfills.note_begun(KEY, ["01", "02"], NOW, NOW)
    backfills.note_cancel(KEY, NOW + SECOND)
    found = backfills.find_backfills([KEY])[KEY]
    assert (found.is_sending, found.unsent) == (False, 2)
    assert not backfills.note_begun(KEY, ["03"], NOW, NOW)
    backfills.note_sent(KEY, ["01"], NOW)  # it was sent all the same
    for began_at in (NOW + 2 * SECOND, NOW + 3 * SECOND):
        assert backfills.note_begun(KEY, [f"{began_at.second:02}"], NOW, began_at)
    found = backfills.find_backfills([KEY])[KEY]
    began = [f"{(NOW + n * SECOND).second:02}" for n in (2, 3)]
    assert (found.is_sending, found.values, found.left) == (True, ("01",), tuple(began))


def test_of_what_was_sent_again_the_latest_time_is_known_until_its_end_is_told(
    backfills: DynamoBackfills,
) -> None:
    for at in (NOW + SECOND, NOW):
        backfills.note_sent(KEY, ["01", "02"], NOW, {"01": at}, watches=True)
    found = backfills.find_backfills([KEY])[KEY]
    assert (found.values, found.again) == (("01", "02"), {"01": NOW + SECOND})
    assert found.watch is not None
    assert backfills.note_look(KEY, found.watch, told(found.watch))
    assert backfills.find_backfills([KEY])[KEY].again == {}


def test_of_what_is_sent_once_more_the_earlier_time_goes(backfills: DynamoBackfills) -> None:
    """Else a set of an item that is bounded would grow with each command."""
    backfills.note_sent(KEY, ["01", "02"], NOW, {"01": NOW, "02": NOW})
    known = backfills.find_backfills([KEY])[KEY]
    assert backfills.note_begun(KEY, ["01"], NOW, NOW, {"01": known.again["01"]})
    assert backfills.find_backfills([KEY])[KEY].again == {"02": NOW}


def test_the_largest_backfill_has_room(backfills: DynamoBackfills) -> None:
    values = [f"{n:032}" for n in range(MAX_VALUES)]
    backfills.note_sent(KEY, values, NOW)
    assert backfills.find_backfills([KEY])[KEY].values == tuple(values)


def test_a_watch_is_raised_with_what_is_sent_and_noted_once(
    backfills: DynamoBackfills, aws: Aws, table: str
) -> None:
    leases = DynamoLeases(Records(aws.client("dynamodb"), table, aws.clock, random.Random(1)))

    def watch() -> TreeWatch:
        found = backfills.find_backfills([KEY])[KEY].watch
        assert found is not None
        return found

    backfills.note_sent(KEY, ["01"], NOW, watches=True)
    first = watch()
    assert first == TreeWatch(1)
    assert list(leases.watched_backfills("main")) == [KEY]
    assert list(leases.watched_keys("main")) == []
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
    assert list(leases.watched_backfills("main")) == []
    backfills.note_sent(KEY, ["02"], NOW, watches=True)
    assert watch() == TreeWatch(3, told=2)
    assert list(leases.watched_backfills("main")) == [KEY]


def test_one_that_is_not_there_is_not_watched(backfills: DynamoBackfills) -> None:
    backfills.watch_again(KEY, f"{KEY}/01", NOW)
    assert not backfills.note_look(KEY, TreeWatch(1), told(TreeWatch(1)))
    assert backfills.find_backfills([KEY]) == {}
