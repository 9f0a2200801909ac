"""Worlds drawn from seeds, what they have and cost; `make soak` runs more of them."""

from collections.abc import Callable, Mapping
from itertools import count, islice

import pytest

from simulation.tools.checking import all_hold
from simulation.worlds.features import FEATURES
from simulation.worlds.generation import BASES, plan_of
from simulation.worlds.plan import TINY, Plan
from simulation.worlds.randomness import rng_of


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
        (lambda plan: any(job.parts for job in plan.jobs), 5, 60),
        (lambda plan: plan.secret, 2, 15),
        (lambda plan: plan.has_emr, 5, 20),
        (lambda plan: plan.has_tiny, 10, 40),
        (lambda plan: plan.has_tables, 4, 25),
        (lambda plan: has_act(plan, "backfill"), 1, 9),
        (lambda plan: any(job.late_s for job in plan.jobs), 1, 40),
        (lambda plan: plan.jobs in [each.jobs for family in BASES for each in family], 15, 60),
    ],
    ids=["parts", "secret", "emr", "tiny", "tables", "backfill", "late", "systematic"],
)
def test_some_of_a_hundred_worlds_have(has: Has, least: int, most: int) -> None:
    assert least < sum(has(plan_of(seed)) for seed in range(100)) < most


SEEDS = range(400)


def test_every_job_is_submitted_whatever_is_off() -> None:
    for seed in SEEDS:
        plan = plan_of(seed)
        sends = [act for act in plan.acts if act.kind.startswith(("submit", "backfill"))]
        submitted = {act.job for act in sends}
        names = {job.name for job in plan.jobs if "." not in job.name}

        # A backfill submits all jobs whose names begin with its own.
        assert names - submitted <= {name for name in names if name.partition("/")[0] in submitted}
