"""Scenarios with single faults at their places, and with some pairs.

More of them, and the worlds of more than a day: `make test-slow`. Every single fault of each:
`python -m simulation.tools.soak --single`.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from simulation.tools.checking import all_hold
from simulation.worlds.engines import EMR_WORLDS, TINY_WORLDS
from simulation.worlds.plan import Act, Ending, Job, Plan
from simulation.worlds.systematic import LONG, PIPELINES, RACES, SCENARIOS, pairs, single_faults
from simulation.worlds.tables import TABLE_WORLDS
from simulation.worlds.trees import TREE_WORLDS

_SHORT = tuple(each for each in SCENARIOS if each not in LONG)
_SUBMIT = Act(1.0, "submit", "j0")
# Boots until about 75 s, and waits for its input until about 90 s.
_LATE = Job("j0", work_s=30.0, files=1, late_s=20.0)
LATE: Final[Mapping[str, Plan]] = {
    "a job waits for its input": Plan(jobs=(_LATE,), acts=(_SUBMIT,), faults=()),
    **{
        f"the inputs of a job in parts change at {at_s} s while it waits": Plan(
            jobs=(Job("j0", work_s=30.0, files=1, late_s=20.0, parts=2, saves="checkpoint"),),
            acts=(_SUBMIT, *(Act(each, "change", "j0", service="inputs") for each in changes)),
            faults=(),
        )
        for at_s, changes in ((70.0, (70.0,)), (80.0, (80.0,)), (70.5, (70.5, 85.0, 100.0)))
    },
    "a job is cancelled while it waits for its input": Plan(
        jobs=(_LATE,), acts=(_SUBMIT, Act(80.0, "cancel", "j0")), faults=()
    ),
    **{
        f"a job waits for its input, and {kind}": Plan(
            jobs=(Job("j0", work_s=30.0, files=1, late_s=20.0, endings=(Ending(kind, 15.0),)),),
            acts=(_SUBMIT,),
            faults=(),
        )
        for kind in ("crashes", "spot", "hangs", "endless", "partitioned", "maintenance")
    },
    "a compaction waits for its input": Plan(
        jobs=(Job("j0", work_s=30.0, files=1, late_s=20.0, output="log", compacts=True),),
        acts=(_SUBMIT,),
        faults=(),
    ),
}
WORLDS: Final[Mapping[str, Plan]] = {
    **SCENARIOS,
    **PIPELINES,
    **TINY_WORLDS,
    **EMR_WORLDS,
    **TREE_WORLDS,
    **TABLE_WORLDS,
    **LATE,
}
EVERY = 10_000
"""More single faults than any world has."""
SOME: Final[Mapping[str, int]] = {
    "a job dies between commit and publish": 25,
    "a job succeeds": 25,
    "a job fails, then succeeds": 25,
    "a job is cancelled": 25,
    "a backfill of a plain stage is interrupted, and goes on": 25,
    **dict.fromkeys(PIPELINES, 3),
    "a tiny job succeeds": 25,
    "a job on EMR Serverless succeeds": 12,
    "a tree's end is told, and once more when its dead job was run again": 6,
    "a job overwrites a table": 8,
    "the inputs of a job in parts change at 80.0 s while it waits": 15,
}
"""By world, the number of its single faults that are tried."""
MANY: Final[Mapping[str, int]] = {
    **dict.fromkeys(_SHORT, 100),
    **dict.fromkeys(LONG, 20),
    **dict.fromkeys(PIPELINES, 40),
    "a job dies between commit and publish": EVERY,
    "a job succeeds": EVERY,
    "a tiny job succeeds": EVERY,
    "a job on EMR Serverless succeeds": 100,
    "a tree's end is told, and once more when its dead job was run again": 40,
    "a job appends to a table": 150,
    "a job overwrites a table": 150,
    "the inputs of a job in parts change at 80.0 s while it waits": 50,
}
_DAY_S = 86_400


def lasts_s(plan: Plan) -> float:
    """Until when something is to happen, at least."""
    acts = (act.at_s + act.for_s for act in plan.acts)
    return max((*acts, *(job.work_s for job in plan.jobs)))


def without_faults() -> Iterator[object]:
    """A race or a defect of more than a day takes seconds; `tests/handlers` has such waits."""
    for name, plan in RACES.items():
        marks = [pytest.mark.slow] if lasts_s(plan) > _DAY_S else []
        yield pytest.param(plan, marks=marks, id=name)
    for name, plan in {**SCENARIOS, **PIPELINES, **LATE}.items():
        yield pytest.param(plan, id=name)


@pytest.mark.parametrize("plan", list(without_faults()))
def test_every_invariant_holds_without_further_faults(plan: Plan) -> None:
    assert all_hold([plan]) == 1


@pytest.mark.parametrize(
    ("name", "count"),
    [*SOME.items(), *(pytest.param(*each, marks=pytest.mark.slow) for each in MANY.items())],
)
def test_every_invariant_holds_with_single_faults(name: str, count: int) -> None:
    plans = list(single_faults(WORLDS[name]))
    assert len(plans) > 300
    chosen = random.Random(3).sample(plans, min(count, len(plans)))
    assert all_hold(chosen) == len(chosen)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_invariant_holds_in_a_pipeline_with_some_pairs_of_faults(pipeline: str) -> None:
    assert all_hold(pairs(PIPELINES[pipeline], random.Random(4), 10)) > 6


@pytest.mark.parametrize("scenario", _SHORT)
def test_every_invariant_holds_with_some_pairs_of_faults(scenario: str) -> None:
    assert all_hold(pairs(SCENARIOS[scenario], random.Random(1), 2)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("scenario", _SHORT)
def test_every_invariant_holds_with_more_pairs_of_faults(scenario: str) -> None:
    assert all_hold(pairs(SCENARIOS[scenario], random.Random(2), 20)) > 14
