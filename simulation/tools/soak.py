"""Run many worlds on all cores.

`make soak WORLDS=1000000`, or `python -m simulation.tools.soak --worlds 1000000`, runs worlds drawn
from seeds. With `--single` it runs every scenario and pipeline that is not long with every single
fault at every place. Progress and violations go to stderr, and in the end the plans that show them,
the first ones as small as can be. The last stdout line is
`worlds=N violations=N worlds_per_s=N virtual_hours_per_s=N`. The exit code is 1 on a violation.
After an interruption, or when a worker was killed, the same command continues: the state is a file
under `.longhaul/`.
"""

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import repeat
from pathlib import Path
from threading import Thread
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from simulation.tools.replay import report
from simulation.tools.shrink import Shrinker
from simulation.worlds.generation import plan_of
from simulation.worlds.plan import Plan
from simulation.worlds.run import Run, run
from simulation.worlds.systematic import LONG, PIPELINES, SCENARIOS, single_faults

_STATE = Path(__file__).resolve().parents[2] / ".longhaul" / "soak.json"
_CHUNK = 20
Source = Literal["drawn", "single"]
"""Where worlds come from: a world is a seed, or the number of one with a single fault."""

_PROGRESS_S = 10.0
_MOST_SHRUNK = 5  # violations to shrink in the end; the others are probably the same
WORKER_DIED = 3
INTERRUPTED = 130


@cache
def singles() -> list[Plan]:
    scenarios = [plan for name, plan in SCENARIOS.items() if name not in LONG]
    return [world for plan in (*scenarios, *PIPELINES.values()) for world in single_faults(plan)]


@dataclass
class Progress:
    """The progress of a soak."""

    source: Source
    first: int
    wanted: int
    worlds: int = 0
    seconds: float = 0.0
    virtual_s: float = 0.0
    violations: list[str] = field(default_factory=list)  # plans

    @classmethod
    def load(cls, path: Path, source: Source, first: int, wanted: int) -> "Progress":
        """The progress of the same soak if it was interrupted, else a new one."""
        new = cls(source, first, wanted)
        try:
            found = TypeAdapter(cls).validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):  # no file, or one of another version
            return new
        is_same = (found.source, found.first, found.wanted) == (source, first, wanted)
        return found if is_same and found.worlds < wanted else new

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(self)))
        temporary.replace(path)

    def line(self) -> str:
        seconds = self.seconds or 1.0
        return (
            f"worlds={self.worlds} violations={len(self.violations)}"
            f" worlds_per_s={self.worlds / seconds:.1f}"
            f" virtual_hours_per_s={self.virtual_s / 3600 / seconds:.1f}"
        )


def main() -> int:
    """Exit code 1 on a violation, 3 when a worker was killed, 130 when interrupted."""
    parser = argparse.ArgumentParser(prog="python -m simulation.tools.soak", description=__doc__)
    parser.add_argument("--worlds", type=_count, default=10_000)
    parser.add_argument("--single", action="store_true", help="run every single fault instead")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=_count, default=os.cpu_count() or 1)
    parser.add_argument("--state", type=Path, default=_STATE)
    arguments = parser.parse_args()
    source: Source = "single" if arguments.single else "drawn"
    wanted = len(singles()) if arguments.single else arguments.worlds
    state = Progress.load(arguments.state, source, arguments.first, wanted)
    if state.worlds:
        print(f"continuing after {state.worlds} worlds", file=sys.stderr)
    try:
        soak(state, arguments.state, arguments.processes)
        for n, plan in enumerate(state.violations):
            _show(Plan.from_json(plan), shrink=n < _MOST_SHRUNK)
    except KeyboardInterrupt:
        print("interrupted: the same command continues", file=sys.stderr)
        return INTERRUPTED
    except BrokenProcessPool:
        print("a worker was killed (no memory left?): the same command continues", file=sys.stderr)
        return WORKER_DIED
    finally:
        state.save(arguments.state)
        print(state.line())
    return 1 if state.violations else 0


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"needs a number from 1, not {text!r}")
    return int(text)


def soak(state: Progress, path: Path, processes: int) -> None:
    """Run the rest of a soak; its state is saved with each report of progress."""
    began, before_s, reported = time.monotonic(), state.seconds, time.monotonic()
    # Spawned, not forked: a world must not inherit state of this process. An executor notices when
    # a worker is killed; a `multiprocessing.Pool` waits for it for ever.
    workers = ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), initializer=_begin_worker
    )
    numbers = range(state.first + state.worlds, state.first + state.wanted)
    try:
        for found in workers.map(run_number, repeat(state.source), numbers, chunksize=_CHUNK):
            state.worlds += 1
            state.virtual_s += found.virtual_s
            state.seconds = before_s + time.monotonic() - began
            if found.violation is not None:
                print(found.violation.text, file=sys.stderr)
                state.violations.append(found.violation.plan.to_json())
            if time.monotonic() - reported >= _PROGRESS_S:
                reported = time.monotonic()
                state.save(path)
                print(f"{state.worlds / state.wanted:6.1%}  {state.line()}", file=sys.stderr)
    finally:
        workers.shutdown(cancel_futures=True)


def run_number(source: Source, number: int) -> Run:
    """Run the world of a number, in a child process."""
    return run(plan_of(number) if source == "drawn" else singles()[number])


def _show(plan: Plan, *, shrink: bool) -> None:
    """To shrink a plan takes up to 600 runs of it, which is why no worker waits for that."""
    violation = run(plan).violation
    if violation is not None:  # else found by an earlier part of this soak, and mended since
        print(report(Shrinker(violation).shrink() if shrink else violation), file=sys.stderr)


def _begin_worker() -> None:
    """Ctrl-C goes to the whole group; the parent ends its children, or they end after it.

    The parent may be killed by a signal that it cannot handle, so it cannot end its workers itself.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # at once, whatever the other threads do


if __name__ == "__main__":
    sys.exit(main())
