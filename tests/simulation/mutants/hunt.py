"""One mutant: worlds until an invariant does not hold. `python -m tests.simulation.mutants.hunt NAME WORLDS`, in a process of its own."""

import itertools
import json
import random
import sys
from collections.abc import Iterator
from typing import TypeVar

from tests.simulation.mutants.applied import apply
from tests.simulation.mutants.catalogue import MUTANTS

T = TypeVar("T")


def main() -> int:
    """Prints one JSON object: how many worlds it took, and what was violated (None: it survived)."""
    name, limit = sys.argv[1], int(sys.argv[2])
    apply(MUTANTS[name])
    # Only now: whatever imports the product gets the mutant.
    from tests.simulation.plan import Plan  # noqa: PLC0415
    from tests.simulation.run import run_world  # noqa: PLC0415
    from tests.simulation.systematic import PIPELINES, RACES, SCENARIOS, single_faults, sites_of  # noqa: PLC0415

    def worlds() -> Iterator[Plan | int]:
        """The scenarios as they are, then drawn worlds and single faults in turn: some bugs need trouble, some just the right place for it."""
        yield from SCENARIOS.values()
        yield from RACES.values()
        yield from PIPELINES.values()
        drawn = iter(range(limit))
        counted = _alternating(
            [single_faults(plan) for plan in (*SCENARIOS.values(), *PIPELINES.values()) if sites_of(plan)]
        )
        for one, other in itertools.zip_longest(drawn, counted):
            yield from (each for each in (one, other) if each is not None)

    violated, tried = None, 0
    for world in itertools.islice(worlds(), limit):
        tried += 1
        violation = run_world(world)
        if violation is not None:
            violated = violation.text.partition("\n")[0]
            break
    json.dump({"worlds": tried, "violated": violated}, sys.stdout)
    return 0


def _alternating(streams: list[Iterator[T]]) -> Iterator[T]:
    rng = random.Random(7)
    while streams:
        stream = rng.choice(streams)
        try:
            yield next(stream)
        except StopIteration:
            streams.remove(stream)


if __name__ == "__main__":
    sys.exit(main())
