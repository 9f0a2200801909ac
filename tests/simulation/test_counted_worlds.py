"""Scenarios with single faults at their places, and with some pairs.

More of them, and the worlds of more than a day: `make test-slow`. Every single fault of each:
`python -m simulation.tools.soak --single`.
"""

import random
from collections.abc import Iterable, Mapping

import pytest

from simulation.tools.checking import all_hold
from simulation.worlds.plan import Plan
from simulation.worlds.regressions import REGRESSIONS
from simulation.worlds.systematic import LONG, PIPELINES, RACES, SCENARIOS, pairs, single_faults

_SHORT = tuple(each for each in SCENARIOS if each not in LONG)
_COUNTED = ("a job dies between commit and publish", "a job succeeds")
"""With every single fault."""
_SAMPLED = (
    *_COUNTED,
    "a job fails, then succeeds",
    "a job is cancelled",
    "a backfill of a plain stage is interrupted, and goes on",
)

_DAY_S = 86_400


def lasts_s(plan: Plan) -> float:
    """Until when something is to happen, at least."""
    acts = (act.at_s + act.for_s for act in plan.acts)
    return max((*acts, *(job.start_s + job.work_s for job in plan.jobs)))


def parted(worlds: Mapping[str, Plan]) -> list[object]:
    """Their names. A world of more than a day takes seconds; `tests/handlers` has such waits."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] if lasts_s(plan) > _DAY_S else [])
        for name, plan in worlds.items()
    ]


def some(plans: Iterable[Plan], count: int) -> list[Plan]:
    return random.Random(3).sample(list(plans), count)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_invariant_holds_without_faults(scenario: str) -> None:
    assert all_hold([SCENARIOS[scenario]]) == 1


@pytest.mark.parametrize("race", parted(RACES))
def test_every_invariant_holds_in_a_race(race: str) -> None:
    assert all_hold([RACES[race]]) == 1


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_invariant_holds_in_a_pipeline_without_faults(pipeline: str) -> None:
    assert all_hold([PIPELINES[pipeline]]) == 1


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_invariant_holds_in_a_pipeline_with_some_of_the_single_faults(pipeline: str) -> None:
    assert all_hold(some(single_faults(PIPELINES[pipeline]), 3)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_invariant_holds_in_a_pipeline_with_many_of_the_single_faults(pipeline: str) -> None:
    assert all_hold(some(single_faults(PIPELINES[pipeline]), 40)) == 40


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_invariant_holds_in_a_pipeline_with_some_pairs_of_faults(pipeline: str) -> None:
    assert all_hold(pairs(PIPELINES[pipeline], random.Random(4), 10)) > 6


@pytest.mark.slow
@pytest.mark.parametrize("scenario", _COUNTED)
def test_every_invariant_holds_with_any_single_fault(scenario: str) -> None:
    assert all_hold(single_faults(SCENARIOS[scenario])) > 300


@pytest.mark.parametrize("scenario", _SAMPLED)
def test_every_invariant_holds_with_some_of_the_single_faults(scenario: str) -> None:
    assert all_hold(some(single_faults(SCENARIOS[scenario]), 25)) == 25


@pytest.mark.parametrize("scenario", _SHORT)
def test_every_invariant_holds_with_some_pairs_of_faults(scenario: str) -> None:
    assert all_hold(pairs(SCENARIOS[scenario], random.Random(1), 2)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [each for each in _SHORT if each not in _COUNTED])
def test_every_invariant_holds_with_many_of_the_single_faults(scenario: str) -> None:
    assert all_hold(some(single_faults(SCENARIOS[scenario]), 100)) == 100


@pytest.mark.slow
@pytest.mark.parametrize("scenario", LONG)
def test_every_invariant_holds_with_a_fault_anywhere_in_a_long_job(scenario: str) -> None:
    assert all_hold(some(single_faults(SCENARIOS[scenario]), 20)) == 20


@pytest.mark.slow
@pytest.mark.parametrize("scenario", _SHORT)
def test_every_invariant_holds_with_more_pairs_of_faults(scenario: str) -> None:
    assert all_hold(pairs(SCENARIOS[scenario], random.Random(2), 20)) > 14


@pytest.mark.parametrize("defect", parted(REGRESSIONS))
def test_every_invariant_holds_where_a_defect_was_found(defect: str) -> None:
    assert all_hold([REGRESSIONS[defect]]) == 1
