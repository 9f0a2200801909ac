"""Put seeded bugs into the real code, one by one; the simulation has to find each.

A few cannot show in its worlds, because those have one sweep at a time. A test that the mutant
names has to find them.

`make mutants`, or `python -m simulation.tools.mutants`. Progress goes to stderr. The last line on
stdout is `mutants=N killed=N`. The exit code is 1 when a mutant survives: an invariant is missing.

Each mutant is tried in the one world that killed it before, of which `known.json` beside this file
has the plan. Where that shows nothing any more, the mutant is stale: with `--anew` it is hunted in
a thousand worlds, and the smallest plan that kills it is written down.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from shlex import quote
from typing import Any

from simulation.tools.mutants.applied import ROOT
from simulation.tools.mutants.catalogue import MUTANTS

_WORLDS = 1_000
"""The most worlds for each mutant that is hunted. The slowest takes some seven hundred."""

KNOWN = Path(__file__).with_name("known.json")
"""By the name of a mutant a world that kills it, as a plan in JSON."""

Ask = Callable[[str, int, str | None], dict[str, Any]]
"""Asks for a hunt: the name of a mutant, the most worlds, and the first one."""

_ANEW = "python -m simulation.tools.mutants --anew"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation.tools.mutants", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only these mutants; all without a name"
    )
    parser.add_argument(
        "--worlds", type=int, default=_WORLDS, help="the most worlds to try for each, with --anew"
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
    killed = 0
    with ExitStack() as ending, ThreadPoolExecutor(arguments.processes) as pool:
        idle: SimpleQueue[Ask] = SimpleQueue()
        for _ in range(arguments.processes):
            idle.put(ending.enter_context(hunter()))

        def found_of(name: str) -> dict[str, Any]:
            ask = idle.get()
            try:
                if arguments.anew:
                    return {"why": "SURVIVED", **ask(name, arguments.worlds, None)}
                return tried(name, known.get(name), ask)
            finally:
                idle.put(ask)

        hunts = {pool.submit(found_of, name): name for name in names}
        for hunt in as_completed(hunts):
            name, found = hunts[hunt], hunt.result()
            killed += found["violated"] is not None
            if arguments.anew and found.get("shows"):
                known[name] = found["shows"]
                kept = {each: known[each] for each in MUTANTS if each in known}
                KNOWN.write_text(json.dumps(kept, indent=0) + "\n")
            said = (
                f"killed in {found['worlds']:5} worlds by {found['violated']}"
                if found["violated"]
                else found["why"]
            )
            print(f"{name:45} {said}", file=sys.stderr, flush=True)
    print(f"mutants={len(names)} killed={killed}")
    return 0 if killed == len(names) else 1


@contextmanager
def hunter() -> Iterator[Ask]:
    """`hunt.hunt`, in processes of their own: it takes one name after the other."""
    command = [sys.executable, "-m", "simulation.tools.mutants.hunt"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        requests, answers = process.stdin, process.stdout
        assert requests and answers  # noqa: S101, PT018 - pipes are asked for

        def ask(name: str, worlds: int, first: str | None) -> dict[str, Any]:
            print(json.dumps((name, worlds, first)), file=requests, flush=True)
            found: dict[str, Any] = json.loads(answers.readline())
            if "why" in found:
                # The bug broke the simulation itself, and no invariant found it.
                found["why"] = f"BROKE THE SIMULATION: {found['why']}"
            return found

        yield ask


def tried(name: str, world: str | None, ask: Ask) -> dict[str, Any]:
    """Whether the known world of a mutant kills it, or the test that it names."""
    if world is None and not MUTANTS[name].test:
        return {"violated": None, "why": f"NO KNOWN WORLD: {_ANEW} {quote(name)}"}
    stale = f"STALE, its known world shows it no more: {_ANEW} {quote(name)}"
    return {"why": stale, **ask(name, 1, world)}


if __name__ == "__main__":
    sys.exit(main())
