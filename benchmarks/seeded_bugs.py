"""How soon drawn worlds find seeded bugs: this checkout beside an earlier one.

    .venv/bin/python -m benchmarks.seeded_bugs --before REVISION [--bugs 40] [--most-s 15] [--json]

The bugs are a sample of those that a world can show. Each is put into the code of both checkouts,
in a process of its own, which runs drawn worlds until one shows it, or until the CPU time is spent.

The ratio is of the CPU time that it takes to find as many bugs as both sides have found, if all are
hunted side by side. It does not depend on the bugs that neither side finds in that time.
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


def compared(sides: dict[str, list[_Hunt]]) -> dict[str, Any]:
    """What each side has found, and the CPU seconds that it took to find as many as the other."""
    both = min(sum(each.is_found for each in hunts) for hunts in sides.values())
    as_many_s = {side: _until(hunts, both) for side, hunts in sides.items()}
    found: dict[str, Any] = {
        side: {
            "found": sum(each.is_found for each in hunts),
            "worlds": sum(each.worlds for each in hunts),
            "cpu_s": round(sum(each.cpu_s for each in hunts)),
            "cpu_s_for_as_many": round(as_many_s[side]),
        }
        for side, hunts in sides.items()
    }
    ratio = as_many_s["before"] / as_many_s["now"] if both else None
    return {"bugs": len(sides["now"]), **found, "ratio": ratio and round(ratio, 2)}


def _until(hunts: list[_Hunt], count: int) -> float:
    """The CPU seconds of all hunts, side by side, until so many bugs are found."""
    times = sorted(each.cpu_s for each in hunts if each.is_found)
    last_s = times[count - 1] if count else 0.0
    return sum(min(each.cpu_s, last_s) for each in hunts)


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
    found = compared(hunts)
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for side in hunts:
        figures = " ".join(f"{name}={value}" for name, value in found[side].items())
        sys.stdout.write(f"{side}: {figures}\n")
    sys.stdout.write(f"of {found['bugs']} bugs: as many in {found['ratio']} times less CPU time\n")


if __name__ == "__main__":
    main()
