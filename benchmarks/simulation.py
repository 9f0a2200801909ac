"""Simulated worlds for each CPU second: this checkout beside an earlier one, on the same seeds.

    .venv/bin/python -m benchmarks.simulation --before REVISION [--worlds 60] [--json]

One process each, which take turns world by world. Both must make the same worlds: the rows at the
end, the faults that fired and the virtual time are compared.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from simulation.worlds.generation import plan_of
from simulation.worlds.systematic import CORE, pairs

_ROOT = Path(__file__).parents[1]
# Runs in the other checkout too, so it uses only what has always been there.
_SIDE = """
import hashlib, json, sys, time
from simulation.worlds.plan import Plan
from simulation.worlds.run import play
from simulation.worlds.world import World
for text in sys.stdin:
    began = time.process_time()
    world = World(Plan.from_json(text))
    play(world)
    took = time.process_time() - began
    rows = {table: {str(key): row.item for key, row in each.rows.items()}
            for table, each in world.aws.dynamodb.tables.items()}
    what = json.dumps([rows, [str(each) for each in world.injector.fired], world.virtual_s],
                      sort_keys=True)
    print(json.dumps([took, hashlib.sha256(what.encode()).hexdigest()]), flush=True)
"""


class _Ran(NamedTuple):
    cpu_s: float
    digest: str


class _Side:
    """A process that runs the worlds of one checkout."""

    def __init__(self, checkout: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SIDE],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, plan: str) -> _Ran:
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("both are pipes")
        self._process.stdin.write(plan + "\n")
        self._process.stdin.flush()
        took, digest = json.loads(self._process.stdout.readline())
        return _Ran(took, digest)

    def end(self) -> None:
        self._process.communicate()


def compared(before: str, plans: list[str]) -> dict[str, Any]:
    """CPU seconds of both sides over all worlds, and how many worlds differ."""
    with tempfile.TemporaryDirectory() as folder:
        check_out(before, Path(folder))
        sides = {"before": _Side(Path(folder)), "now": _Side(_ROOT)}
        ran: dict[str, list[_Ran]] = {name: [] for name in sides}
        try:
            for round_, plan in enumerate([plans[0], *plans]):  # the first only warms them up
                for name in sorted(sides, reverse=bool(round_ % 2)):
                    ran[name].append(sides[name].run(plan))
        finally:
            for side in sides.values():
                side.end()
    cpu_s = {name: sum(each.cpu_s for each in found[1:]) for name, found in ran.items()}
    different = sum(
        old.digest != new.digest for old, new in zip(ran["before"], ran["now"], strict=True)
    )
    return {
        "worlds": len(plans),
        "worlds_per_cpu_s_before": round(len(plans) / cpu_s["before"], 1),
        "worlds_per_cpu_s_now": round(len(plans) / cpu_s["now"], 1),
        "ratio": round(cpu_s["before"] / cpu_s["now"], 2),
        "different_worlds": different,
    }


def check_out(revision: str, folder: Path) -> None:
    archive = subprocess.run(
        ["git", "archive", revision],  # noqa: S607 - git is where the developer has it
        cwd=_ROOT,
        check=True,
        capture_output=True,
    ).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        # Of our own commits. The first patches of Python 3.11 have no filter.
        files.extractall(folder)  # noqa: S202


def _plans(worlds: int) -> dict[str, list[str]]:
    """Both kinds of worlds of a soak."""
    return {
        "drawn": [plan_of(seed).to_json() for seed in range(worlds)],
        "pairs": [plan.to_json() for plan in pairs(CORE, random.Random(7), worlds)],  # noqa: S311 - seeded on purpose,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", required=True, help="a revision of git")
    parser.add_argument("--worlds", type=int, default=60, help="of each kind")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {
        name: compared(options.before, plans) for name, plans in _plans(options.worlds).items()
    }
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for name, figures in found.items():
        sys.stdout.write(
            f"{name}: {figures['ratio']} times the worlds of {options.before} per CPU second"
            f" ({figures['worlds_per_cpu_s_now']} against {figures['worlds_per_cpu_s_before']},"
            f" {figures['worlds']} worlds, {figures['different_worlds']} different)\n"
        )


if __name__ == "__main__":
    main()
