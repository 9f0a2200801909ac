"""The gate: `python -m tests.simulation.mutants`, or `make mutants`. Each seeded bug is put into the real code, and the simulation has to find it.

Progress goes to stderr. The last line on stdout is `mutants=N killed=N`; exit code 1 when one survives: then an invariant is missing.
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from tests.simulation.mutants.applied import ROOT
from tests.simulation.mutants.catalogue import MUTANTS

_WORLDS = 1_000
"""For each mutant at the most. The slowest to be found takes fewer than two hundred."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; all without")
    parser.add_argument("--worlds", type=int, default=_WORLDS, help="how many worlds to try for each")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in MUTANTS]:
        parser.error(f"no such mutant: {', '.join(unknown)}; there are: {', '.join(MUTANTS)}")
    names = arguments.names or list(MUTANTS)
    killed = 0
    with ThreadPoolExecutor(arguments.processes) as pool:
        hunts = {pool.submit(_hunt, name, arguments.worlds): name for name in names}
        for hunt in as_completed(hunts):
            name, found = hunts[hunt], hunt.result()
            killed += found["violated"] is not None
            said = f"killed in {found['worlds']:5} worlds by {found['violated']}" if found["violated"] else found["why"]
            print(f"{name:45} {said}", file=sys.stderr, flush=True)
    print(f"mutants={len(names)} killed={killed}")
    return 0 if killed == len(names) else 1


def _hunt(name: str, worlds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.simulation.mutants.hunt", name, str(worlds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # No invariant: the bug broke the simulation itself. The others have their turn all the same.
        return {"violated": None, "why": f"BROKE THE SIMULATION: {done.stderr[-2000:]}"}
    found: dict[str, Any] = json.loads(done.stdout)
    return {"why": "SURVIVED", **found}


if __name__ == "__main__":
    sys.exit(main())
