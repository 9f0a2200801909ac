"""Worlds in which about half of all kinds of acts, endings and faults are off."""

from collections import Counter

import pytest

from simulation.worlds.generation import plan_of
from simulation.worlds.plan import Plan
from simulation.worlds.run import run
from simulation.worlds.swarm import Swarm

SEEDS = range(400)


def kinds_in(plan: Plan) -> set[str]:
    return {f"act {act.kind}" for act in plan.acts} | {
        f"ending {ending.kind}" for job in plan.jobs for ending in job.endings
    }


def test_a_seed_makes_the_same_swarm_again() -> None:
    assert [plan_of(seed) for seed in SEEDS] == [plan_of(seed) for seed in SEEDS]


def test_about_half_of_all_kinds_are_on() -> None:
    kinds = [f"kind {number}" for number in range(100)]
    on = [len(Swarm(seed, is_one=True).some(kinds)) for seed in SEEDS]

    assert 45 < sum(on) / len(on) < 55


def test_world_that_is_no_swarm_has_all_kinds() -> None:
    assert Swarm(1, is_one=False).some(["a", "b", "c"]) == ["a", "b", "c"]


def test_every_job_is_submitted_whatever_is_off() -> None:
    for seed in SEEDS:
        plan = plan_of(seed)
        sends = [act for act in plan.acts if act.kind.startswith(("submit", "backfill"))]
        submitted = {act.job for act in sends}
        names = {job.name for job in plan.jobs if "." not in job.name}

        # A backfill submits all jobs whose names begin with its own.
        assert names - submitted <= {name for name in names if name.partition("/")[0] in submitted}


def test_every_kind_of_act_that_is_drawn_more_than_once_is_in_some_swarm() -> None:
    drawn: Counter[bool] = Counter()
    seen: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for seed in SEEDS:
        plan = plan_of(seed)
        drawn[plan.mix.swarm] += 1
        seen[plan.mix.swarm].update(kinds_in(plan))

    assert drawn[True] > drawn[False] > 0
    assert {kind for kind, times in seen[False].items() if times > 1} <= seen[True].keys()


@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(40), marks=pytest.mark.slow)])
def test_a_kind_that_is_off_never_fires(seeds: range) -> None:
    fired = 0
    for seed in seeds:
        plan = plan_of(seed)
        if not plan.mix.swarm:
            continue
        swarm = Swarm(plan.seed, is_one=True)
        for fault in run(plan).faults:
            place, colon, _ = fault.site.partition(":")
            if colon:
                fired += 1
                assert swarm.has(f"{place}/{fault.kind}")

    assert fired > len(seeds) / 2


def test_the_plan_of_a_violation_replays_the_same_world() -> None:
    plan = next(plan for plan in map(plan_of, SEEDS) if plan.mix.swarm and plan.mix.calls > 0.01)
    first = run(plan)
    again = run(Plan.from_json(plan.to_json()))

    assert (again.faults, again.virtual_s) == (first.faults, first.virtual_s)
