"""Drawn worlds in which a backfill sends the jobs."""

import random

import pytest

from simulation.tools.checking import all_hold
from simulation.worlds.backfills import with_backfill
from simulation.worlds.generation import plan_of
from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.randomness import rng_of


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
