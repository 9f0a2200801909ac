"""Worlds with outputs to tables, and what others do to these."""

from collections import Counter

import pytest

from simulation.seen.lake import TableChange
from simulation.worlds.tables import TABLE_WORLDS
from simulation.worlds.world import World
from tests.simulation.test_parts import played

EVENTS = "table://longhaul/events"


def owners(world: World) -> list[str]:
    """Whose rows are in the table: a job's key and its attempt, or `others`."""
    found = []
    for row, times in world.seen.lake.rows[EVENTS].items():
        token = world.seen.token_in(row)
        found += [f"{token.key} {token.attempt}" if token else "others"] * times
    return sorted(found)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a job makes a table", ["main#j0 1"]),
        ("a job appends to a table", ["main#j0 1", "main#j1 1"]),
        ("a job overwrites a table", ["main#j1 1"]),
        ("the answer to a commit to a table is lost", ["main#j0 1", "main#j1 1"]),
        ("no answer to a commit to a table comes", ["main#j0 1", "main#j1 1"]),
        ("an attempt is cut off before its commit to a table", ["main#j0 1", "main#j1 2"]),
        ("two appends to a table meet", ["main#j0 1", "main#j1 1", "main#j2 1"]),
        # Made since the overwrite looked.
        ("an overwrite of a table meets an append", ["main#j1 1", "main#j2 1"]),
        # The second to arrive counts as the earlier one.
        ("two overwrites of a table meet", ["main#j2 1"]),
        ("a job overwrites a table that another compacts meanwhile", ["main#j1 1"]),
        # Void: what it would replace had changed, and its next attempt replaces what is left.
        ("a job overwrites a table that another deletes meanwhile", ["main#j1 2"]),
        ("a job overwrites a table that another maintains meanwhile", ["main#j1 2"]),
    ],
)
def test_rows_are_in_the_table_once(name: str, expected: list[str]) -> None:
    assert owners(played(TABLE_WORLDS[name])) == expected


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (["a", "b", "b"], "no row is in a table twice"),
        (["a", "b", "c"], "what Longhaul adds to a table is all of one committed output"),
        (["a"], "what Longhaul adds to a table is all of one committed output"),
    ],
)
def test_a_commit_that_is_not_of_one_output_is_seen(after: list[str], found: str) -> None:
    seen = played(TABLE_WORLDS["a job makes a table"]).seen

    change = TableChange(EVENTS, Counter(["a", "b"]), Counter(after), by_others=False)
    seen.check("table changed", change)

    assert found in str(seen.violated)


def test_a_loss_and_a_second_coming_are_seen() -> None:
    seen = played(TABLE_WORLDS["a job appends to a table"]).seen
    mine = Counter(row for row in seen.lake.rows[EVENTS] if "j1" in str(seen.token_in(row)))

    seen.check("table changed", TableChange(EVENTS, Counter(), mine, by_others=False))

    assert "comes into table://longhaul/events once more" in str(seen.violated)
