"""Runs worlds with one mutant until an invariant does not hold.

`python -m simulation.tools.mutants.hunt` answers each line of its stdin by one on stdout, in JSON:
the arguments of `hunt`, and what that returns or `why` it did not. Each hunt is in a process of its
own, which is forked when the libraries are loaded: they take longer than a mutant's known world. Of
a mutant that no world can show, the test is run that does.
"""

import importlib
import itertools
import json
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import pytest

from simulation.tools.mutants.applied import apply
from simulation.tools.mutants.catalogue import MUTANTS

T = TypeVar("T")

_MOST_RUNS = 200
"""Of worlds that are tried to find a smaller one: half a minute."""

# None has threads before it is used, or loads the product.
_LOADED_ONCE: Final = (
    *("aws_lambda_powertools", "boto3", "hypothesis", "moto", "moto.dynamodb", "pydantic"),
)
_MOST_SAID = 2000


def main() -> int:
    for library in _LOADED_ONCE:
        importlib.import_module(library)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_in_a_process(*json.loads(line))) + "\n")
        sys.stdout.flush()
    return 0


def _in_a_process(*what: Any) -> dict[str, Any]:
    """What `hunt` returns, or as `why` the end of what it said without that."""
    with (
        tempfile.TemporaryFile("w+") as said,
        tempfile.TemporaryFile("w+") as answer,
        tempfile.TemporaryDirectory(prefix="hunt-", ignore_cleanup_errors=True) as scratch,
    ):
        child = os.fork()
        if child == 0:
            me = os.getpid()
            try:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                for descriptor in (1, 2):
                    os.dup2(said.fileno(), descriptor)
                os.environ["TMPDIR"] = tempfile.tempdir = scratch  # it ends without clearing up
                found = hunt(*what)
                if os.getpid() == me:  # a process that a test forked may come here as well
                    json.dump(found, answer)
                    answer.flush()
            except BaseException:  # noqa: BLE001 - as a program of its own would end
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)
        os.waitpid(child, 0)
        for file in (said, answer):
            file.seek(0)
        if text := answer.read():
            found_there: dict[str, Any] = json.loads(text)
            return found_there
        return {"violated": None, "why": said.read()[-_MOST_SAID:]}


def hunt(name: str, limit: int, first: str | None) -> dict[str, Any]:
    """Put the mutant into this process, and run worlds until one shows it.

    Args:
        name: the mutant's.
        limit: the most worlds.
        first: the world to begin with, a plan in JSON.

    Returns:
        how many `worlds`, what was `violated` (None: it survived), and the world that `shows` it,
        if that was hunted: its smallest plan, so that what is drawn for a seed later does not
        change it.
    """
    apply(MUTANTS[name])
    if test := MUTANTS[name].test:
        return {"worlds": 0, "violated": _violated_by(test), "shows": None}
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
        yield from map(read, [first] if first else [])
        yield from SCENARIOS.values()
        yield from (world for name, world in RACES.items() if name not in TABLE_WORLDS)
        yield from PIPELINES.values()
        yield from REGRESSIONS.values()
        drawn = iter(range(limit))
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
    for world in itertools.islice(worlds(), limit):
        tried += 1
        violation = run_world(world)
        if violation is not None:
            violated = violation.text.partition("\n")[0]
            if first is None:
                shows = Shrinker(violation, _MOST_RUNS).shrink().plan.to_json()
            break
    return {"worlds": tried, "violated": violated, "shows": shows}


def _violated_by(test: str) -> str | None:
    """The test, if it fails; None when it passes."""
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
