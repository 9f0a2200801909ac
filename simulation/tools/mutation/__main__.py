"""Change the product's code in small ways, one at a time; a test or a world has to notice each.

`make mutation`, or `python -m simulation.tools.mutation [--sample 200]`. Each change is tried on
the tests that run its line, and what survives them on simulated worlds. After an interruption the
same command continues: results are kept in `.longhaul/mutation.jsonl`, with the text of the module
that they are about. The last lines on stdout are a table by module and every survivor.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from simulation.tools.mutation.forked import Tried
from simulation.tools.mutation.operators import Mutation, mutations

ROOT = Path(__file__).resolve().parents[3]
_MODULES = (
    "longhaul/domain/*.py",
    "longhaul/batch.py",
    "longhaul/beat.py",
    "longhaul/claiming.py",
    "longhaul/dispatch.py",
    "longhaul/finish.py",
    "longhaul/guard.py",
    "longhaul/settle.py",
    "longhaul/starting.py",
    "longhaul/sweep.py",
)
_TESTS = ("tests/unit", "tests/handlers", "tests/contract")
_LINES_ALONE = -1  # in the place of a shard: only note which tests run which lines
_STATE = ROOT / ".longhaul" / "mutation.jsonl"


class _Work(NamedTuple):
    file: str
    digest: str  # of the module's text
    mutation: Mutation

    @property
    def key(self) -> tuple[str, str, int]:
        return self.file, self.digest, self.mutation.number


def main() -> int:
    """Exit code 1 when a mutation survives."""
    parser = argparse.ArgumentParser(
        prog="python -m simulation.tools.mutation", description=__doc__
    )
    parser.add_argument("modules", nargs="*", default=_MODULES, help="files, as patterns")
    parser.add_argument("--sample", type=int, help="try only so many, chosen at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--world-s", type=float, default=20.0, help="seconds of CPU in worlds")
    parser.add_argument("--state", type=Path, default=_STATE)
    parser.add_argument("--shard", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    work = _chosen(options.modules, options.sample, options.seed)
    if options.shard == _LINES_ALONE:
        _try_all([], options.state, options.world_s)
        return 0
    if options.shard is not None:
        _try_all(work[options.shard :: options.processes], options.state, options.world_s)
        return 0
    _worker(_LINES_ALONE).wait()  # once for all
    workers = [_worker(shard) for shard in range(options.processes)]
    for worker in workers:
        worker.wait()
    found = _results(options.state)
    return _report([(each, found[each.key]) for each in work if each.key in found], len(work))


def _worker(shard: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "simulation.tools.mutation", *sys.argv[1:]]
    return subprocess.Popen([*command, "--shard", str(shard)], cwd=ROOT)


def _chosen(patterns: Sequence[str], sample: int | None, seed: int) -> list[_Work]:
    work = [
        _Work(str(path.relative_to(ROOT)), sha256(path.read_bytes()).hexdigest()[:16], mutation)
        for pattern in patterns
        for path in sorted(ROOT.glob(pattern))
        for mutation in mutations(path.read_text())
    ]
    random.Random(seed).shuffle(work)
    return work[:sample]


def _try_all(work: list[_Work], state: Path, world_s: float) -> None:
    # Only now: the first process needs neither.
    import pytest  # noqa: PLC0415

    from simulation.tools.mutation.tests_of import TestsOf  # noqa: PLC0415
    from simulation.tools.mutation.worlds_of import on_worlds  # noqa: PLC0415

    done = _results(state)
    left = [each for each in work if each.key not in done]
    by_mutation = {id(each.mutation): each for each in left}

    def told(file: str, mutation: Mutation, found: Tried) -> None:
        stage = "tests"
        if found.outcome == "survived":
            stage, found = "worlds", on_worlds(ROOT, file, mutation, world_s)
        each = by_mutation[id(mutation)]
        line = {"key": each.key, "stage": stage, "outcome": found.outcome, "by": found.by}
        with state.open("a") as results:
            results.write(json.dumps(line) + "\n")
        print(f"{found.outcome:8} {file}:{mutation.line} {mutation.what}", file=sys.stderr)

    state.parent.mkdir(parents=True, exist_ok=True)
    lines = state.parent / f"mutation-lines-{_digest_of_code()}.pickle"
    plugin = TestsOf(ROOT, [(each.file, each.mutation) for each in left], lines, told)
    arguments = ["-q", "-p", "no:cacheprovider", "-m", "not slow", "-k", "not moto", *_TESTS]
    if left or not lines.exists():
        pytest.main(arguments, plugins=[plugin])


def _digest_of_code() -> str:
    digest = sha256()
    for path in sorted([*ROOT.glob("longhaul/**/*.py"), *ROOT.glob("tests/**/*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _results(state: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    if not state.exists():
        return {}
    found = [json.loads(line) for line in state.read_text().splitlines()]
    return {
        (file, digest, number): each for each in found for file, digest, number in [each["key"]]
    }


def _report(results: list[tuple[_Work, dict[str, Any]]], wanted: int) -> int:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for work, found in results:
        what = "survived" if found["outcome"] == "survived" else f"by {found['stage']}"
        for file in (work.file, "all"):
            counts[file][found["outcome"] if found["outcome"] == "not applied" else what] += 1
    print(f"{'module':42} {'tried':>6} {'tests':>6} {'worlds':>6} {'left':>6} {'killed':>7}")
    for file, count in sorted(counts.items(), key=lambda pair: (pair[0] == "all", pair[0])):
        print(_row(file, count))
    survivors = [(work, found) for work, found in results if found["outcome"] == "survived"]
    for line in sorted(_lines(survivors)):
        print(line)
    not_applied = counts["all"]["not applied"]
    print(
        f"mutations={wanted} tried={len(results) - not_applied} not_applied={not_applied}"
        f" survived={len(survivors)}"
    )
    return 1 if survivors else 0


def _row(file: str, count: Counter[str]) -> str:
    tests, worlds, left = count["by tests"], count["by worlds"], count["survived"]
    tried = tests + worlds + left
    share = f"{(tests + worlds) / tried:7.1%}" if tried else ""
    return f"{file:42} {tried:6} {tests:6} {worlds:6} {left:6} {share}"


def _lines(survivors: list[tuple[_Work, dict[str, Any]]]) -> Iterator[str]:
    for work, _ in survivors:
        each = work.mutation
        yield f"{work.file}:{each.line:03} {each.what}\n  - {each.old}\n  + {each.new}"


if __name__ == "__main__":
    sys.exit(main())
