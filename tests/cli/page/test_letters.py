"""What is read only when a person asks: dead letters, and schedules."""

import json
import re
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.cli.page import lists
from longhaul.cli.target import Target
from tests.builders import QUEUE_URL
from tests.cli.conftest import World
from tests.cli.page.conftest import Elements, Visitor, visitor_of, words
from tests.cli.page.scenes import dead, multitude, succeeded, three_stages, tree
from tests.cli.page.test_actions import keys_asked
from tests.cli.test_tasks_page import CLICKS


def test_each_letter_is_shown_with_its_reason_and_stays_visible_to_others(
    world: World, visitor: Visitor
) -> None:
    ids = [world.bury(f"job-{n}", "failed", f"reason {n}") for n in range(12)]
    page = words(visitor.read("/dead-letters", stage="main"))
    assert "job-7 failed 0s ago 3 reason 7" in page
    assert all(each in page for each in ids)
    assert world.dead() == ids


def test_only_this_page_receives_letters_and_it_does_not_refresh(
    world: World, visitor: Visitor
) -> None:
    world.bury("job")
    for path in ("/", "/job?id=job", "/ask/rerun?key=main%23job"):
        visitor.get(path)
    assert world.aws.gate.counts["sqs.ReceiveMessage"] == 0
    assert "data-refresh" not in visitor.read("/dead-letters")
    assert world.aws.gate.counts["sqs.ReceiveMessage"] > 0


def test_a_job_that_is_still_dead_of_a_letter_runs_again(world: World, visitor: Visitor) -> None:
    rows = [dead(world, f"day-{n}", f"missing input: s3://b/{n}.csv") for n in range(3)]
    world.again(rows[2])
    # A conflict tells of another request under the id of a dead job.
    world.bury("day-0", "conflicting_job_id", "day-0 is another request")
    page = visitor.read("/dead-letters", stage="main")
    assert "day-2 ▶ running permanent" in words(page)
    links = [str(each["href"]) for each in Elements(page).of("a") if "data-ask" in each]
    assert [keys_asked(visitor.read(each)) for each in links] == [["main#day-0"], ["main#day-1"]]
    same = visitor.read("/", window="7d", state="DEAD", text="missing input")
    assert "Rerun 2 of them" in words(same)


# What is read when a person asks: the schedules. The tables are in test_table.py.


@pytest.mark.parametrize(
    ("state", "is_installed", "following"),
    [
        ("ENABLED", True, "in 22h55m (2026-01-03 02:00:00Z)"),
        ("ENABLED", False, ""),
        ("DISABLED", True, "off"),
    ],
)
def test_a_schedule_is_shown_with_its_next_firing(
    world: World,
    target: Target,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    following: str,
    *,
    is_installed: bool,
) -> None:
    def get_schedule(Name: str) -> dict[str, Any]:  # noqa: N803 - boto3's
        assert Name == "Longhaul-main"
        return {
            "ScheduleExpression": "cron(0 3 * * ? *)",
            "ScheduleExpressionTimezone": "Europe/Berlin",
            "CreationDate": world.clock.now() - timedelta(days=1),
            "State": state,
            "Target": {"Input": json.dumps({"QueueUrl": QUEUE_URL})},
        }

    monkeypatch.setattr(lists, "find_spec", lambda _: is_installed or None)
    monkeypatch.setattr(
        world.aws, "scheduler", SimpleNamespace(get_schedule=get_schedule), raising=False
    )
    stack = world.aws.cloudformation.stacks["Longhaul"]
    schedule = {"Schedule1": ("AWS::Scheduler::Schedule", "Longhaul-main")}
    world.deploy(resources={**stack.resources, **schedule})
    page = words(visitor_of(target).read("/schedules"))
    assert page.endswith(f"main cron(0 3 * * ? *) Europe/Berlin {following}".rstrip())


def test_a_stack_without_schedules_says_so(visitor: Visitor) -> None:
    assert "No stage has a schedule." in visitor.read("/schedules")


# What docs/reference/cli.md says to click is there.


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
