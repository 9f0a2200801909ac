"""Worlds with jobs that are to begin later."""

import random

import pytest

from simulation.tools.checking import all_hold
from simulation.worlds.generation import plan_of
from simulation.worlds.planned import PLANNED_WORLDS, with_planned
from simulation.worlds.randomness import rng_of
from simulation.worlds.systematic import single_faults

BEGINS = PLANNED_WORLDS["a planned job begins at its time"]


def test_every_invariant_holds_with_some_single_faults_around_a_planned_job() -> None:
    plans = list(single_faults(BEGINS))
    assert all_hold(random.Random(5).sample(plans, 10)) == 10


@pytest.mark.slow
def test_every_invariant_holds_with_any_single_fault_around_a_planned_job() -> None:
    assert all_hold(single_faults(BEGINS)) > 100


def test_every_invariant_holds_in_drawn_worlds_with_planned_jobs() -> None:
    drawn = (with_planned(rng_of(seed, "planned"), plan_of(seed)) for seed in range(71_000, 71_012))
    plans = [plan for plan in drawn if any(job.start_s for job in plan.jobs)]
    assert len(plans) > 5
    assert all_hold(plans) == len(plans)
