"""Worlds in which people act on whole trees, and those whose jobs a backfill sends."""

import random

import pytest

from simulation.tools.checking import all_hold
from simulation.tools.replay import read
from simulation.worlds.backfills import with_backfill
from simulation.worlds.generation import plan_of
from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.randomness import rng_of
from simulation.worlds.run import play
from simulation.worlds.systematic import single_faults
from simulation.worlds.trees import TREE_WORLDS, with_reruns
from simulation.worlds.world import World

RETRIED = TREE_WORLDS["a tree's end is told, and once more when its dead job was run again"]


def test_each_of_the_worlds_can_be_replayed() -> None:
    assert [read(plan.to_json()) for plan in TREE_WORLDS.values()] == [*TREE_WORLDS.values()]


@pytest.mark.parametrize("count", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_every_invariant_holds_with_some_single_faults_around_a_tree(count: int) -> None:
    plans = list(single_faults(RETRIED))
    assert all_hold(random.Random(5).sample(plans, count)) == count


def test_a_tree_is_run_again_once_it_and_its_reruns_have_ended_and_each_end_is_told() -> None:
    expected = {
        "a tree is run again when its end was told": ["j0"] * 2,
        "a tree is run again and again, and twice at once": ["j0"] * 3,
        "a tree is run again before it has ended": ["j0"] * 2,
        "a tree is run again before its rerun has ended": ["j0"] * 3,
        "a tree whose root has died is run again": ["j0"],
    }
    for name, roots in expected.items():
        world = World(TREE_WORLDS[name])
        play(world)
        assert world.seen.violated is None
        assert [each["job_id"] for each in world.seen.told_trees] == roots, name


@pytest.mark.parametrize("is_short", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_invariant_holds_in_drawn_worlds_with_reruns(*, is_short: bool) -> None:
    drawn = (
        with_reruns(rng_of(seed, "reruns"), plan_of(seed)) for seed in range(93_000_000, 93_000_012)
    )
    plans = [
        plan
        for plan in drawn
        if any(act.kind.startswith("rerun") for act in plan.acts)
        and is_short
        == (
            len(plan.jobs) < 4
            and all(job.work_s < 600 for job in plan.jobs)
            and all(act.for_s < 8_000 for act in plan.acts)
        )
    ]
    assert len(plans) > 4
    assert all_hold(plans) == len(plans)


@pytest.mark.slow
def test_every_invariant_holds_in_drawn_worlds_with_trees() -> None:
    plans = [plan for seed in range(92_000_000, 92_001_000) if (plan := plan_of(seed)).trees]
    assert len(plans) > 20
    assert all_hold(plans) == len(plans)


def has_backfill(plan: Plan) -> bool:
    return any(act.kind == "backfill" for act in plan.acts)


def drawn(seeds: range) -> list[Plan]:
    """Those of plain stages, each with a backfill; long worlds show nothing new here."""
    plans = [
        plan
        if has_backfill(plan := plan_of(seed))
        else with_backfill(rng_of(seed, "backfill"), plan)
        for seed in seeds
    ]
    return [
        plan
        for plan in plans
        if has_backfill(plan)
        and len(plan.jobs) < 5
        and all(job.work_s < 600 for job in plan.jobs)
        and all(act.for_s < 8_000 for act in plan.acts)
    ]


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

    plans = [with_backfill(random.Random(seed), plan) for seed in range(60)]
    assert {act.kind for plan in plans for act in plan.acts} == {
        *("backfill", "cancel_backfill", "retry_backfill"),
        *("cancel_tree", "retry_tree", "rerun_tree"),
    }
    firsts = [plan.acts[0].work for plan in plans]
    assert {0, 1, 2} == {*firsts}


def test_a_few_of_the_worlds_have_a_backfill() -> None:
    assert 5 < sum(has_backfill(plan_of(seed)) for seed in range(300)) < 25


def test_every_invariant_holds_in_drawn_worlds_with_a_backfill() -> None:
    plans = drawn(range(95_000_000, 95_000_030))[:10]
    assert all_hold(plans) == len(plans) == 10


@pytest.mark.slow
def test_every_invariant_holds_in_more_drawn_worlds_with_a_backfill() -> None:
    plans = drawn(range(95_001_000, 95_001_120))
    assert len(plans) > 30
    assert all_hold(plans) == len(plans)
