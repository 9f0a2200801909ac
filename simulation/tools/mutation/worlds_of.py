"""Tries mutations on simulated worlds: the scenarios, then drawn worlds and single faults."""

import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from simulation.tools.mutation.forked import NOT_APPLIED, Tried, tried
from simulation.tools.mutation.operators import Mutation
from simulation.tools.mutation.patched import NotAppliedError, apply
from simulation.tools.mutation.tests_of import module_of
from simulation.worlds.generation import plan_of
from simulation.worlds.plan import Plan
from simulation.worlds.regressions import REGRESSIONS
from simulation.worlds.run import run_world
from simulation.worlds.systematic import PIPELINES, RACES, SCENARIOS, single_faults

_ONE_WORLD_S = 60.0  # of CPU; a world that takes more goes on for ever
_SCENARIOS: tuple[Plan, ...] = (
    *SCENARIOS.values(),
    *RACES.values(),
    *PIPELINES.values(),
    *REGRESSIONS.values(),
)


def on_worlds(root: Path, file: str, mutation: Mutation, cpu_s: float) -> Tried:
    """Run worlds with the mutation for so many seconds of CPU, or until one does not hold."""

    def attempt(say: Callable[[str], None]) -> int:
        try:
            apply(mutation, str(root / file), module_of(file))
        except NotAppliedError:
            return NOT_APPLIED
        end = time.process_time() + cpu_s
        for number, world in enumerate(_worlds()):
            violation = run_world(world)
            if violation is not None:
                say(f"world {number + 1}: {violation.text}")
                return 1
            if time.process_time() > end:
                return 0
        return 0

    return tried(attempt, cpu_s + _ONE_WORLD_S)


def _worlds() -> Iterator[Plan | int]:
    yield from _SCENARIOS
    rng = random.Random(7)
    faults = [single_faults(plan) for plan in rng.sample(_SCENARIOS, len(_SCENARIOS))]
    for seed in itertools.count():
        yield plan_of(seed)
        fault = next(faults[seed % len(faults)], None)
        if fault is not None:
            yield fault
