"""Runs worlds with one mutant until an invariant does not hold.

`python -m simulation.tools.mutants.hunt NAME WORLDS [FIRST]`, in a process of its own. FIRST is
the world to begin with, a plan in JSON. Of a mutant that no world can show, the test is run that
does.
"""

import itertools
import json
import random
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import TypeVar

import pytest

from simulation.tools.mutants.applied import apply
from simulation.tools.mutants.catalogue import MUTANTS

T = TypeVar("T")

_MOST_RUNS = 200
"""Of worlds that are tried to find a smaller one: half a minute."""


def main() -> int:
    """Print a JSON object: how many worlds, what was violated (null: it survived), and by which.

    A world that was hunted is written as its smallest plan, so that what is drawn for a seed later
    does not change it.
    """
    name, limit, *first = sys.argv[1:]
    apply(MUTANTS[name])
    if test := MUTANTS[name].test:
        json.dump({"worlds": 0, "violated": _violated_by(test), "shows": None}, sys.stdout)
        return 0
    # Only now, so that all imports of the product get the mutant.
    from simulation.tools.replay import read  # noqa: PLC0415
    from simulation.tools.shrink import Shrinker  # noqa: PLC0415
    from simulation.worlds.plan import Plan  # noqa: PLC0415
    from simulation.worlds.regressions import REGRESSIONS  # noqa: PLC0415
    from simulation.worlds.run import run_world  # noqa: PLC0415
    from simulation.worlds.systematic import (  # noqa: PLC0415
        PIPELINES,
        RACES,
        SCENARIOS,
        single_faults,
        sites_of,
    )
    from simulation.worlds.tables import TABLE_WORLDS  # noqa: PLC0415

    def worlds() -> Iterator[Plan | int]:
        """The first one, the scenarios, then drawn worlds, single faults and tables in turn.

        Some bugs need many faults, others one fault at the right place. Worlds with tables take
        several times as long as others.
        """
        yield from map(read, first)
        yield from SCENARIOS.values()
        yield from (world for name, world in RACES.items() if name not in TABLE_WORLDS)
        yield from PIPELINES.values()
        yield from REGRESSIONS.values()
        drawn = iter(range(int(limit)))
        counted = _alternating(
            [
                single_faults(plan)
                for plan in (*SCENARIOS.values(), *PIPELINES.values())
                if sites_of(plan)
            ]
        )
        for worlds_in_turn in itertools.zip_longest(drawn, counted, TABLE_WORLDS.values()):
            yield from (each for each in worlds_in_turn if each is not None)

    tried = 0
    violated: str | None = None
    shows: str | None = None
    for world in itertools.islice(worlds(), int(limit)):
        tried += 1
        violation = run_world(world)
        if violation is not None:
            violated = violation.text.partition("\n")[0]
            if not first:
                shows = Shrinker(violation, _MOST_RUNS).shrink().plan.to_json()
            break
    json.dump({"worlds": tried, "violated": violated, "shows": shows}, sys.stdout)
    return 0


def _violated_by(test: str) -> str | None:
    """The test, if it fails; None when it passes."""
    with redirect_stdout(sys.stderr):  # stdout is for the answer
        # Plain asserts: to rewrite those of a plugin's package, pytest loads the package's files
        # itself, and `longhaul` has a plugin. It would load them without the mutant.
        plain = ["-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:unraisableexception"]
        code = pytest.main([*plain, test])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"{test} did not run: {code}")
    return test if code == pytest.ExitCode.TESTS_FAILED else None


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
