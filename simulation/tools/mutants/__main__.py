"""Put seeded bugs into the real code, one by one; the simulation has to find each.

`make mutants`, or `python -m simulation.tools.mutants`. Progress goes to stderr. The last line on
stdout is `mutants=N killed=N`. The exit code is 1 when a mutant survives: an invariant is missing.

Each mutant is tried in the one world that killed it before, of which `known.json` beside this file
has the plan. Where that shows nothing any more, the mutant is stale: with `--anew` it is hunted in
a thousand worlds, and the smallest plan that kills it is written down.
"""

import argparse
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from simulation.tools.mutants.catalogue import MUTANTS
from simulation.tools.mutants.hunt import hunt

_WORLDS = 1_000
"""The most worlds for each mutant that is hunted. The slowest takes some seven hundred."""

KNOWN = Path(__file__).with_name("known.json")
"""By the name of a mutant a world that kills it, as a plan in JSON."""

_ANEW = "python -m simulation.tools.mutants --anew"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation.tools.mutants", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only these mutants; all without a name"
    )
    parser.add_argument(
        "--anew", action="store_true", help="hunt without the known worlds, and write down new ones"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in MUTANTS]:
        parser.error(f"no such mutant: {', '.join(unknown)}; there are: {', '.join(MUTANTS)}")
    names = arguments.names or list(MUTANTS)
    known: dict[str, str] = json.loads(KNOWN.read_text())
    first: dict[str, str] = {} if arguments.anew else known
    most, survived = (_WORLDS, "SURVIVED") if arguments.anew else (1, f"STALE: {_ANEW} NAME")
    killed = 0
    with ThreadPoolExecutor(arguments.processes) as pool:
        hunts = {pool.submit(hunt, name, most, first.get(name)): name for name in names}
        for done in as_completed(hunts):
            name, found = hunts[done], done.result()
            killed += found["violated"] is not None
            if arguments.anew and found.get("shows"):
                known[name] = found["shows"]
                kept = {each: known[each] for each in MUTANTS if each in known}
                KNOWN.write_text(json.dumps(kept, indent=0) + "\n")
            said = (
                f"killed in {found['worlds']:5} worlds by {found['violated']}"
                if found["violated"]
                else found.get("why", survived)
            )
            print(f"{name:45} {said}", file=sys.stderr, flush=True)
    print(f"mutants={len(names)} killed={killed}")
    return 0 if killed == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
