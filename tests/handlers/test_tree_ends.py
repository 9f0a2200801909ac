"""A stage's `tree_ended`: the end of a tree is told once all of it has ended, each time anew."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from functions import sweeper
from longhaul.core.lease import Lease
from longhaul.core.settings import Stage
from longhaul.notices.notice import Notice
from longhaul.pipelines.tree_ends import TreeEnds
from simulation.aws.service import ACCOUNT, REGION
from tests.events import event
from tests.handlers.stack import Context, Stack, deployed
from tests.handlers.test_joins import BY_DATE, requests, run_all
from tests.handlers.test_stages import begun, dispatched, end_well, settled
from tests.handlers.test_trees import rerun, trees_of
from tests.handlers.test_unreadable_rows import make_unreadable

TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:ended"
TELLS = {"notify": TOPIC, "tree_ended": True}
STAGES = tuple(each.model_copy(update=TELLS if each.name == "main" else {}) for each in BY_DATE)


@contextmanager
def telling(stages: tuple[Stage, ...]) -> Iterator[Stack]:
    with deployed(check=True, stages=stages) as found:
        found.aws.sns.create_topic(Name="ended")
        yield found


@pytest.fixture
def stack() -> Iterator[Stack]:
    with telling(STAGES) as found:
        yield found


def told_after_a_sweep(stack: Stack, context: Context) -> list[dict[str, Any]]:
    """All events that were sent, after another sweep."""
    stack.aws.clock.advance(300)
    sweeper.lambda_handler({}, context)
    return [json.loads(text) for text in stack.aws.sns.topics.get(TOPIC, [])]


def swept(stack: Stack, context: Context) -> list[dict[str, Any]]:
    """The tree events that were sent, after another sweep."""
    told = told_after_a_sweep(stack, context)
    return [each for each in told if each.get("event") == "tree_ended"]


def die(row: Lease, context: Context) -> None:
    assert settled(row, context, event("settle", "exit-65-permanent")["error"]) == "DEAD"


def before_the_first(stack: Stack, happens: Callable[[], None]) -> tuple[TreeEnds, list[Notice]]:
    """What tells ends, and what it has told: that happens before its first notice is sent."""
    told: list[Notice] = []
    usual = stack.parts.notices

    def send(target: str, notice: Notice) -> None:
        told.append(notice)
        if len(told) == 1:
            happens()
        usual.send(target, notice)

    announcer = replace(stack.parts.announcer, notices=Mock(send=send))
    return replace(stack.parts.tree_ends, announcer=announcer), told


def test_the_end_of_a_tree_is_told_once_all_of_it_has_ended(stack: Stack, context: Context) -> None:
    root = begun(stack, context, {"fetch": requests(2)})
    assert stack.load(root.key).is_watched
    assert swept(stack, context) == []
    for name in ("fetch", "clean"):
        run_all(stack, name, context)
        assert swept(stack, context) == []
    (join,) = run_all(stack, "delays", context)
    (told,) = swept(stack, context)
    last = stack.load(join.key)
    assert told == {
        "version": 1,
        "event": "tree_ended",
        "id": told["id"],
        "stage": "main",
        "job_id": root.job_id,
        "label": None,
        "tags": {},
        "run": root.run,
        "sequence": 1,
        "outcome": "SUCCEEDED",
        "jobs": {
            "main": {"SUCCEEDED": 1},
            "fetch": {"SUCCEEDED": 2},
            "clean": {"SUCCEEDED": 2},
            "delays": {"SUCCEEDED": 1},
        },
        "unwell": [],
        "ended_at": last.ended_at.isoformat(timespec="milliseconds"),
    }
    assert re.fullmatch(rf"{root.id.key_hash}-{root.run}-tree-[0-9a-f]{{16}}", told["id"])
    assert swept(stack, context) == [told]
    assert not stack.load(root.key).is_watched


def test_a_job_that_led_to_none_is_no_tree(context: Context) -> None:
    with deployed(check=True, notify=TOPIC, tree_ended=True) as alone:
        alone.aws.sns.create_topic(Name="ended")
        row = begun(alone, context)
        assert alone.load(row.key).tree is None
        assert swept(alone, context) == []


def test_a_join_that_is_sent_is_awaited_though_a_member_that_had_arrived_has_died_since(
    stack: Stack, context: Context
) -> None:
    begun(stack, context, {"fetch": requests(2)})
    run_all(stack, "fetch", context)
    clean = stack.settings.stage("clean")
    first, second = dispatched(stack, clean, context)
    end_well(stack, first, context)
    rerun(stack, stack.load(first.key))
    (again,) = dispatched(stack, clean, context)
    die(again, context)
    end_well(stack, second, context)  # and the join gets what the first had arrived with
    assert swept(stack, context) == []

    run_all(stack, "delays", context)
    (told,) = swept(stack, context)
    assert (told["outcome"], told["jobs"]["delays"]) == ("DEAD", {"SUCCEEDED": 1})


def test_a_dead_job_that_is_run_again_ends_its_tree_a_second_time(
    stack: Stack, context: Context
) -> None:
    root = begun(stack, context, {"fetch": requests(2)})
    first, second = dispatched(stack, stack.settings.stage("fetch"), context)
    end_well(stack, first, context)
    die(second, context)
    run_all(stack, "clean", context)
    (told,) = swept(stack, context)
    assert (told["outcome"], told["jobs"]["delays"]) == ("DEAD", {"WAITS": 1})
    assert told["unwell"] == [
        {
            "stage": "fetch",
            "job_id": second.job_id,
            "label": None,
            "state": "DEAD",
            "class": "permanent",
        }
    ]

    stack.aws.clock.advance(600)
    rerun(stack, stack.load(second.key))
    for name in ("fetch", "clean", "delays"):
        assert swept(stack, context) == [told]
        run_all(stack, name, context)
    _, again = swept(stack, context)
    assert (again["outcome"], again["run"]) == ("SUCCEEDED", root.run)
    assert again["sequence"] > told["sequence"]
    assert again["id"] != told["id"]


def test_a_job_that_cannot_be_read_keeps_the_end_of_its_tree_back(
    stack: Stack, context: Context
) -> None:
    begun(stack, context, {"fetch": requests(1)})
    (row,) = dispatched(stack, stack.settings.stage("fetch"), context)
    make_unreadable(stack, row.job_id, "progress")
    assert (swept(stack, context), swept(stack, context)) == ([], [])


def test_an_end_that_comes_while_a_sweep_tells_the_first_one_is_told_too(
    stack: Stack, context: Context
) -> None:
    """The sweep has read a dead job, which runs again and ends before the notice is sent."""
    root = begun(stack, context, {"fetch": requests(1)})
    (row,) = dispatched(stack, stack.settings.stage("fetch"), context)
    die(row, context)
    stack.aws.clock.advance(600)
    rerun(stack, stack.load(row.key))

    def runs_and_ends() -> None:
        (again,) = dispatched(stack, stack.settings.stage("fetch"), context)
        die(again, context)

    ends, told = before_the_first(stack, runs_and_ends)
    for is_told in (False, True):
        row = stack.load(root.key)
        assert row.is_watched
        assert ends.tell_end(row, stack.settings.stage("main")) is is_told
    first, second = (json.loads(each.body) for each in told)
    assert first["sequence"] < second["sequence"]
    assert first["id"] != second["id"]
    assert not stack.load(root.key).is_watched


def test_a_job_that_begins_again_during_a_look_keeps_its_tree_open(
    stack: Stack, context: Context
) -> None:
    root = begun(stack, context, {"fetch": requests(1)})
    (row,) = dispatched(stack, stack.settings.stage("fetch"), context)
    die(row, context)
    dead = stack.load(row.key)
    trees, reads = trees_of(stack), [0]

    class Meanwhile:
        """The second read of the row shows a run that has begun since."""

        def __getattr__(self, name: str) -> Any:
            return getattr(trees.leases, name)

        def load_many(self, keys: Any) -> Any:
            reads[0] += 1
            if reads[0] == 2:
                stack.aws.clock.advance(600)
                rerun(stack, dead)
                dispatched(stack, stack.settings.stage("fetch"), context)
            return trees.leases.load_many(keys)

    look = replace(trees, leases=Meanwhile()).look_through(stack.load(root.key))
    assert look.open == row.key
