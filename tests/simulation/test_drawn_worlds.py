"""Worlds drawn from seeds, what they have and cost; `make soak` runs more of them."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count, islice

import pytest

from simulation.tools.checking import all_hold
from simulation.worlds.cost import USUAL, cost_of
from simulation.worlds.features import FEATURES
from simulation.worlds.generation import BASES, near_one, plan_of
from simulation.worlds.occasions import OCCASIONS, with_acts
from simulation.worlds.plan import TINY, Act, Ending, Job, Mix, Plan
from simulation.worlds.randomness import rng_of
from simulation.worlds.run import run
from simulation.worlds.swarm import Swarm


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 100), marks=pytest.mark.slow)])
def test_every_invariant_holds_in_worlds_of_many_faults(seeds: range) -> None:
    assert all_hold(seeds) == len(seeds)


def has_act(plan: Plan, kind: str) -> bool:
    return any(act.kind.startswith(kind) for act in plan.acts)


Has = Callable[[Plan], bool]
DRAWN_FEATURES: Mapping[str, Has] = {
    "tables": lambda plan: plan.has_tables,
    "tiny": lambda plan: all(job.size == TINY for job in plan.jobs),
    "emr serverless": lambda plan: plan.has_emr,
    "denial": lambda plan: has_act(plan, "outage"),
    "secrets": lambda plan: plan.secret,
    "reruns": lambda plan: has_act(plan, "rerun"),
    "trees": lambda plan: plan.trees,
    "backfill": lambda plan: has_act(plan, "backfill"),
}
"""A feature by its source, and whether a world has it."""


def is_short(plan: Plan) -> bool:
    """Long worlds show nothing new here."""
    return (
        len(plan.jobs) < 4
        and all(job.work_s < 600 for job in plan.jobs)
        and all(act.for_s < 8_000 for act in plan.acts)
    )


@pytest.mark.parametrize(
    ("first", "most"), [(0, 6), pytest.param(1_000, 40, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("source", DRAWN_FEATURES)
def test_every_invariant_holds_in_worlds_with(source: str, first: int, most: int) -> None:
    feature = FEATURES[source]
    has = DRAWN_FEATURES[source]
    drawn = (feature.to(rng_of(seed, source), plan_of(seed)) for seed in count(first))
    plans = islice((plan for plan in drawn if has(plan) and is_short(plan)), most)
    assert all_hold(plans) == most


@pytest.mark.parametrize(
    ("has", "least", "most"),
    [
        (lambda plan: plan.sidecars, 4, 20),
        (lambda plan: plan.secret, 2, 15),
        (lambda plan: plan.has_emr, 5, 20),
        (lambda plan: plan.has_tiny, 10, 40),
        (lambda plan: plan.has_tables, 4, 25),
        (lambda plan: has_act(plan, "backfill"), 1, 9),
        (lambda plan: any(job.late_s for job in plan.jobs), 1, 40),
        (lambda plan: plan.jobs in [each.jobs for family in BASES for each in family], 15, 60),
    ],
    ids=["sidecars", "secret", "emr", "tiny", "tables", "backfill", "late", "systematic"],
)
def test_some_of_a_hundred_worlds_have(has: Has, least: int, most: int) -> None:
    assert least < sum(has(plan_of(seed)) for seed in range(100)) < most


def test_the_target_of_notices_is_out_in_some_worlds() -> None:
    plans = [plan_of(seed) for seed in range(200)]
    out = {
        plan.notify
        for plan in plans
        for act in plan.acts
        if act.kind == "outage" and act.service == plan.notify
    }

    assert out >= {"sns", "events"}


def test_outages_of_different_services_are_drawn_apart() -> None:
    plan = Plan(jobs=(Job("j0"),), acts=(Act(1.0, "submit", "j0"),), notify="sns")
    worlds = [with_acts(random.Random(seed), plan, OCCASIONS) for seed in range(600)]
    moments = [[act.at_s for act in each.acts if act.kind == "outage"] for each in worlds]
    several = [each for each in moments if len(each) > 1]

    # Two of different services may begin together by chance.
    assert sum(len({*each}) == len(each) for each in several) > 20


DRAWN = Plan(seed=17, mix=Mix(calls=0.02), notify="sns")


def times_of(acts: tuple[Act, ...]) -> list[tuple[str, float]]:
    return sorted((act.kind, act.at_s) for act in acts)


def test_every_family_has_worlds_that_are_short_and_need_no_fault_at_a_place() -> None:
    assert min(map(len, BASES)) > 5
    assert not any(plan.faults for family in BASES for plan in family)


def test_a_systematic_world_gets_the_faults_of_a_drawn_one_and_keeps_its_jobs() -> None:
    bases = [plan for family in BASES for plan in family]
    moved = 0
    for n in range(40):
        plan = near_one(random.Random(n), DRAWN)

        assert (plan.seed, plan.mix, plan.faults) == (17, DRAWN.mix, None)
        alike = [each for each in bases if each.jobs == plan.jobs]
        assert alike
        moved += all(times_of(each.acts) != times_of(plan.acts) for each in alike)
    assert 5 < moved < 35


SHORT = Job("j0", work_s=9.0)
SUBMIT = Act(1.0, "submit", "j0")
PLAN = Plan(jobs=(SHORT,), acts=(SUBMIT,))


@pytest.mark.parametrize(
    ("more", "times"),
    [
        (replace(PLAN, jobs=(SHORT, replace(SHORT, name="j1"))), 2),
        (replace(PLAN, jobs=(replace(SHORT, work_s=43_200.0),)), 6),
        (replace(PLAN, jobs=(replace(SHORT, endings=(Ending("endless"),)),)), 5),
        (replace(PLAN, acts=(SUBMIT, Act(2.0, "pause", "j0", for_s=36_000.0))), 3.6),
        (replace(PLAN, clean_slots=1), 3),
    ],
    ids=["another job", "twelve hours", "no end", "a pause of ten hours", "a pipeline"],
)
def test_more_to_do_costs_more(more: Plan, times: float) -> None:
    assert cost_of(more) / cost_of(PLAN) == pytest.approx(times, rel=0.1)


def test_costly_worlds_are_drawn_and_rare() -> None:
    costs = sorted(cost_of(plan_of(seed)) for seed in range(600))

    assert costs[300] < USUAL < costs[450]
    assert sum(each > 3 * USUAL for each in costs) < 40
    assert costs[-1] > 5 * USUAL


SEEDS = range(400)


def kinds_in(plan: Plan) -> set[str]:
    return {f"act {act.kind}" for act in plan.acts} | {
        f"ending {ending.kind}" for job in plan.jobs for ending in job.endings
    }


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
