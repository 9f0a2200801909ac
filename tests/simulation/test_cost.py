"""How rare costly worlds are."""

from dataclasses import replace

import pytest

from simulation.worlds.cost import USUAL, cost_of
from simulation.worlds.generation import plan_of
from simulation.worlds.plan import Act, Ending, Job, Plan

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
