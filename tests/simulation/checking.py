"""How tests run worlds: a violation is shrunk before it is told."""

from collections.abc import Iterable

from tests.simulation.generation import plan_of
from tests.simulation.plan import Plan
from tests.simulation.replay import report
from tests.simulation.run import run
from tests.simulation.shrink import Shrinker

_SHRINKING_RUNS = 150  # enough for a history that one can read; `replay --shrink` goes on


def all_hold(worlds: Iterable[int | Plan]) -> int:
    """Run the worlds, up to the first violation; answers how many there were.

    Raises:
        AssertionError: an invariant does not hold; with the shortest plan and the command that replays it.
    """
    count = 0
    for world in worlds:
        found = run(plan_of(world) if isinstance(world, int) else world).violation
        if found is not None:
            raise AssertionError(report(Shrinker(found, _SHRINKING_RUNS).shrink()))
        count += 1
    return count
