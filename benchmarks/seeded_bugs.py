"""Seeded bugs that drawn worlds find in a CPU hour: this checkout beside an earlier one.

    .venv/bin/python -m benchmarks.seeded_bugs --before REVISION [--bugs 40] [--most-s 15] [--json]

The bugs are a sample of those that a world can show. Each is put into the code of both checkouts,
in a process of its own, which runs drawn worlds until one shows it, or until the CPU time is spent.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.simulation import check_out
from simulation.tools.mutants.__main__ import KNOWN
from simulation.tools.mutants.catalogue import MUTANTS

_ROOT = Path(__file__).parents[1]
_HOUR_S = 3_600
# Runs in the other checkout too. The first worlds import what the others need.
_SIDE = """
import json, sys, time
from simulation.tools.mutants.applied import apply
from simulation.tools.mutants.catalogue import MUTANTS
name, most_s, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
apply(MUTANTS[name])
from simulation.worlds.generation import plan_of
from simulation.worlds.run import run_world
from simulation.worlds.systematic import CORE
from simulation.worlds.tables import TABLE_WORLDS
for plan in (CORE, next(iter(TABLE_WORLDS.values()))):
    run_world(plan)
cpu_s, worlds, is_found = 0.0, 0, False
while not is_found and cpu_s < most_s:
    began = time.process_time()
    is_found = run_world(plan_of(seed + worlds)) is not None
    cpu_s += time.process_time() - began
    worlds += 1
print(json.dumps([cpu_s, worlds, is_found]))
"""


class _Hunt(NamedTuple):
    cpu_s: float
    worlds: int
    is_found: bool


def hunted(checkout: Path, bug: str, most_s: float, first: int) -> _Hunt:
    """The hunt of one bug in the drawn worlds of a checkout, from the first seed on."""
    done = subprocess.run(
        [sys.executable, "-c", _SIDE, bug, str(most_s), str(first)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        check=True,
        capture_output=True,
        text=True,
    )
    return _Hunt(*json.loads(done.stdout))


def summed(hunts: list[_Hunt]) -> dict[str, Any]:
    cpu_s = sum(each.cpu_s for each in hunts)
    found = sum(each.is_found for each in hunts)
    return {
        "bugs": len(hunts),
        "found": found,
        "cpu_s": round(cpu_s),
        "worlds": sum(each.worlds for each in hunts),
        "found_per_cpu_hour": round(found / cpu_s * _HOUR_S),
    }


def sample(count: int) -> list[str]:
    """Some of the bugs that a world is known to show; always the same ones."""
    shown = sorted(name for name in json.loads(KNOWN.read_text()) if not MUTANTS[name].test)
    return sorted(random.Random(42).sample(shown, count))  # noqa: S311 - seeded on purpose


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", required=True, help="a revision of git")
    parser.add_argument("--bugs", type=int, default=40)
    parser.add_argument("--most-s", type=float, default=15.0, help="CPU seconds for each bug")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    hunts: dict[str, list[_Hunt]] = {"before": [], "now": []}
    with tempfile.TemporaryDirectory() as folder:
        check_out(options.before, Path(folder))
        for bug in sample(options.bugs):
            for side, checkout in (("before", Path(folder)), ("now", _ROOT)):
                hunts[side].append(hunted(checkout, bug, options.most_s, options.first))
    found = {side: summed(of_side) for side, of_side in hunts.items()}
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for side, figures in found.items():
        sys.stdout.write(f"{side}: " + " ".join(f"{k}={v}" for k, v in figures.items()) + "\n")


if __name__ == "__main__":
    main()
