"""Worlds in which people act on whole trees, and those whose jobs a backfill sends."""

import random

from simulation.worlds.backfills import ACTS_ON_BACKFILLS, with_backfill
from simulation.worlds.occasions import with_acts
from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.trees import TREE_WORLDS
from tests.simulation.test_parts import played


def test_a_tree_is_run_again_once_it_and_its_reruns_have_ended_and_each_end_is_told() -> None:
    expected = {
        "a tree is run again when its end was told": ["j0"] * 2,
        "a tree is run again and again, and twice at once": ["j0"] * 3,
        "a tree is run again before it has ended": ["j0"] * 2,
        "a tree is run again before its rerun has ended": ["j0"] * 3,
        "a tree whose root has died is run again": ["j0"],
    }
    for name, roots in expected.items():
        world = played(TREE_WORLDS[name])
        assert [each["job_id"] for each in world.seen.told_trees] == roots, name


def test_a_backfill_takes_the_place_of_the_first_submissions() -> None:
    plan = Plan(
        jobs=(Job("j0", named=False), Job("j1")),
        acts=(
            Act(5.0, "submit", "j0"),
            Act(7.0, "cancel", "j0"),
            Act(9.0, "submit", "j0", work=1),
            Act(11.0, "submit", "j1"),
        ),
    )
    found = with_backfill(random.Random(1), plan)

    assert [(job.name, job.named) for job in found.jobs] == [("days/0", True), ("days/1", True)]
    assert found.acts[0] == Act(5.0, "backfill", "days", found.acts[0].work)
    assert {Act(7.0, "cancel", "days/0"), Act(9.0, "submit", "days/0", work=1)} <= {*found.acts}
    assert not {Act(5.0, "submit", "days/0"), Act(11.0, "submit", "days/1")} & {*found.acts}
    assert found.trees
    assert found.notify


def test_what_people_do_with_a_backfill_is_drawn() -> None:
    plan = Plan(jobs=(Job("j0"),), acts=(Act(1.0, "submit", "j0"),))

    drawn = (with_backfill(random.Random(seed), plan) for seed in range(60))
    plans = [with_acts(random.Random(n), each, ACTS_ON_BACKFILLS) for n, each in enumerate(drawn)]
    assert {act.kind for plan in plans for act in plan.acts} == {
        *("backfill", "cancel_backfill", "retry_backfill"),
        *("cancel_tree", "retry_tree", "rerun_tree"),
    }
    firsts = [plan.acts[0].work for plan in plans]
    assert {0, 1, 2} == {*firsts}
