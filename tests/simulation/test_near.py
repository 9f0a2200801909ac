"""Systematic worlds with drawn faults, and with drawn acts beside theirs."""

import random

from simulation.worlds.generation import plan_of
from simulation.worlds.near import BASES, near_one
from simulation.worlds.plan import Act, Mix, Plan

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


def test_some_drawn_worlds_are_systematic_ones() -> None:
    jobs = {plan.jobs for family in BASES for plan in family}

    assert 15 < sum(plan_of(seed).jobs in jobs for seed in range(100)) < 60
