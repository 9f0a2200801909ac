"""Runs worlds in tests; a violation is shrunk before it is reported."""

from collections.abc import Iterable

from simulation.tools.replay import report
from simulation.tools.shrink import Shrinker
from simulation.worlds.generation import plan_of
from simulation.worlds.plan import Plan
from simulation.worlds.run import run

_SHRINKING_RUNS = 150  # enough for a readable history; `replay --shrink` shrinks further


def all_hold(worlds: Iterable[int | Plan]) -> int:
    """Run the worlds, and return their number.

    Raises:
        AssertionError: an invariant does not hold. The message has the smallest plan and the
            command that replays it.
    """
    count = 0
    for world in worlds:
        found = run(plan_of(world) if isinstance(world, int) else world).violation
        if found is not None:
            raise AssertionError(report(Shrinker(found, _SHRINKING_RUNS).shrink()))
        count += 1
    return count
