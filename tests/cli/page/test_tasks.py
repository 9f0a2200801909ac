"""What docs/reference/cli.md says to click is there."""

import re

import pytest

from tests.cli.conftest import World
from tests.cli.page.conftest import Visitor, words
from tests.cli.page.scenes import dead, multitude, succeeded, three_stages, tree
from tests.cli.test_tasks_page import CLICKS

NAMES = [name for each in CLICKS for name in re.findall(r"\*\*(.+?)\*\*", each)]


@pytest.fixture
def pages(world: World, visitor: Visitor) -> list[str]:
    """The pages of a stack in which everything on the list can be done."""
    for n in range(2):
        dead(world, f"dead-{n}", f"no such file: part-{n}")
        succeeded(world, f"done-{n}", 60)
        world.claim(f"runs-{n}")
    multitude(world, 200)
    found = [
        visitor.read("/", window="7d"),
        *(visitor.read("/", window="7d", text=text) for text in ("dead-", "runs-")),
        visitor.read("/dead-letters"),
        visitor.read("/job", stage="main", id="done-1"),
    ]
    world.run("stage", "pause", "main")
    world.clock.advance(2)
    return [*found, visitor.read("/", window="7d")]


def test_each_name_that_the_page_says_to_click_is_there(pages: list[str]) -> None:
    shown = "\n".join(map(words, pages))
    trees = {"Cancel the run", "Rerun what died"}
    assert len(NAMES) > 10
    assert [name for name in NAMES if name not in trees and name not in shown] == []


def test_so_are_those_of_a_tree(world: World, visitor: Visitor) -> None:
    three_stages(world)
    tree(world, 10, 8)
    shown = words(visitor.read("/job", stage="main", id="year"))
    assert "Cancel the run" in shown
    assert "Rerun what died" in shown
