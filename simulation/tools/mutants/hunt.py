"""Runs worlds with one mutant until an invariant does not hold, each hunt in its own process."""

import multiprocessing
import os
import random
import tempfile
import traceback
from collections.abc import Iterator
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from simulation.tools.mutants.applied import apply
from simulation.tools.mutants.catalogue import MUTANTS

_MOST_RUNS = 200
"""Of worlds that are tried to find a smaller one: half a minute."""

_MOST_SAID = 2000

_FORKS: Final = multiprocessing.get_context("forkserver")
# Loading them takes longer than a mutant's known world. None has threads before it is used, or
# loads the product.
_FORKS.set_forkserver_preload(
    ["aws_lambda_powertools", "boto3", "hypothesis", "moto", "moto.dynamodb", "pydantic"]
)


def hunt(name: str, limit: int, first: str | None) -> dict[str, Any]:
    """Run worlds with the mutant until one shows it.

    Args:
        name: the mutant's.
        limit: the most worlds.
        first: the world to begin with, a plan in JSON.

    Returns:
        how many `worlds`, what was `violated` (None: it survived), and the world that `shows` it,
        if that was hunted: its smallest plan, so that what is drawn for a seed later does not
        change it. Or, as `why`, the error that broke the simulation itself.
    """
    found, answer = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(target=_answer, args=(answer, name, limit, first))
    process.start()
    answer.close()
    try:
        answered: dict[str, Any] = found.recv()
    except EOFError:
        answered = {"violated": None, "why": "BROKE THE SIMULATION: its process was killed"}
    process.join()
    return answered


def _answer(answer: Connection, *what: Any) -> None:
    # The process ends without clearing up what it made for its worlds.
    with (
        Path(os.devnull).open("r+b") as nothing,
        tempfile.TemporaryDirectory(prefix="hunt-", ignore_cleanup_errors=True) as scratch,
    ):
        for descriptor in (0, 1, 2):
            os.dup2(nothing.fileno(), descriptor)
        os.environ["TMPDIR"] = tempfile.tempdir = scratch
        try:
            answer.send(_hunt(*what))
        except BaseException:  # noqa: BLE001 - a mutant may raise or exit anywhere
            said = traceback.format_exc()[-_MOST_SAID:]
            answer.send({"violated": None, "why": f"BROKE THE SIMULATION: {said}"})


def _hunt(name: str, limit: int, first: str | None) -> dict[str, Any]:
    apply(MUTANTS[name])
    # Only now, so that all imports of the product get the mutant.
    from simulation.tools.replay import read  # noqa: PLC0415
    from simulation.tools.shrink import Shrinker  # noqa: PLC0415
    from simulation.worlds.generation import plan_of  # noqa: PLC0415
    from simulation.worlds.plan import Plan  # noqa: PLC0415
    from simulation.worlds.run import run  # noqa: PLC0415
    from simulation.worlds.systematic import (  # noqa: PLC0415
        PIPELINES,
        RACES,
        SCENARIOS,
        single_faults,
    )

    def worlds() -> Iterator[Plan]:
        """The first one, those with a name, then drawn worlds and single faults in turn.

        Some bugs need many faults, others one fault at the right place.
        """
        yield from map(read, [first] if first else [])
        for named in (SCENARIOS, PIPELINES, RACES):
            yield from named.values()
        rng = random.Random(7)
        plans = [*SCENARIOS.values(), *PIPELINES.values()]
        for seed in count():
            yield plan_of(seed)
            yield rng.choice(list(single_faults(rng.choice(plans))))

    for tried, world in enumerate(islice(worlds(), limit), 1):
        violation = run(world).violation
        if violation is not None:
            smallest = None if first else Shrinker(violation, _MOST_RUNS).shrink().plan.to_json()
            says = violation.text.partition("\n")[0]
            return {"worlds": tried, "violated": says, "shows": smallest}
    return {"worlds": limit, "violated": None, "shows": None}
