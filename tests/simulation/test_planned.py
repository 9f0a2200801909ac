"""Worlds with jobs that begin later, or before their inputs are there."""

import random

import pytest

from simulation.tools.checking import all_hold
from simulation.worlds.generation import plan_of
from simulation.worlds.plan import Act, Ending, Job, Plan
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


_SUBMIT = Act(1.0, "submit", "j0")
# Boots until about 75 s, and waits for its input until about 90 s.
_LATE = Job("j0", work_s=30.0, files=1, late_s=20.0)
WORLDS = {
    "nothing": Plan(jobs=(_LATE,), acts=(_SUBMIT,), faults=()),
    **{
        f"the inputs change at {at_s} s": Plan(
            jobs=(Job("j0", work_s=30.0, files=1, late_s=20.0, parts=2, saves="checkpoint"),),
            acts=(_SUBMIT, *(Act(each, "change", "j0", service="inputs") for each in changes)),
            faults=(),
        )
        for at_s, changes in ((70.0, (70.0,)), (80.0, (80.0,)), (70.5, (70.5, 85.0, 100.0)))
    },
    "a cancel": Plan(jobs=(_LATE,), acts=(_SUBMIT, Act(80.0, "cancel", "j0")), faults=()),
    **{
        kind: Plan(
            jobs=(Job("j0", work_s=30.0, files=1, late_s=20.0, endings=(Ending(kind, 15.0),)),),
            acts=(_SUBMIT,),
            faults=(),
        )
        for kind in ("crashes", "spot", "hangs", "endless", "partitioned", "maintenance")
    },
    "a compaction": Plan(
        jobs=(Job("j0", work_s=30.0, files=1, late_s=20.0, output="log", compacts=True),),
        acts=(_SUBMIT,),
        faults=(),
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_every_invariant_holds_while_a_job_waits_for_its_input(name: str) -> None:
    all_hold([WORLDS[name]])


@pytest.mark.parametrize("every", [50, pytest.param(15, marks=pytest.mark.slow)])
def test_every_invariant_holds_with_some_of_the_single_faults(every: int) -> None:
    all_hold([*single_faults(WORLDS["the inputs change at 80.0 s"])][::every])


def test_some_drawn_worlds_have_inputs_that_come_late() -> None:
    late = [plan for plan in map(plan_of, range(60)) if any(job.late_s for job in plan.jobs)]
    assert late
    all_hold(late)
