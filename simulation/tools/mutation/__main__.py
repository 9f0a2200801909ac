"""Change the product's code in small ways, one at a time; a test or a world has to notice each.

`make mutation`, or `python -m simulation.tools.mutation [FILES] [--sample 200]`. Each change is
tried on the tests that run its line, and what survives them on simulated worlds. Results are kept
in `.longhaul/mutation.jsonl`, by the text of the changed function: after an interruption the same
command continues, and a survivor is tried only on tests that have changed since. Changes that make
no difference are listed with their reasons in `equivalent.toml`. The last lines on stdout are a
table by module and every survivor.

It runs as a user that owns nothing but a clone of the repository: a change of code that deletes
files or sets their modes does so elsewhere.
"""

import argparse
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from simulation.tools.mutation.operators import mutations
from simulation.tools.mutation.results import (
    NEVER_TRIED,
    Result,
    Work,
    add,
    outdated,
    read,
    reasons,
)
from simulation.tools.parent import end_with_parent

ROOT = Path(__file__).resolve().parents[3]
_MODULES = (
    "longhaul/domain/*.py",
    "longhaul/adapters/*.py",
    "longhaul/adapters/*/*.py",
    "longhaul/engines/listed.py",
    # Its constructs and states make the template. A snapshot notices any change of that.
    "longhaul/engines/*/ends.py",
    "longhaul/engines/*/runner.py",
    "longhaul/engines/*/settings.py",
    "longhaul/engines/*/tasks.py",
    # Not `longhaul/runner/spark` and the catalogue: nearly each of their tests starts a JVM.
    "longhaul/runner/*.py",
    "longhaul/runner/io/*.py",
    "longhaul/batch.py",
    "longhaul/heartbeat.py",
    "longhaul/claiming.py",
    "longhaul/dispatch.py",
    "longhaul/finish.py",
    "longhaul/settle.py",
    "longhaul/starting.py",
    "longhaul/sweep.py",
)
_TESTS = ("tests/unit", "tests/handlers", "tests/contract", "tests/runner")
_SQL = "--ignore=tests/runner/test_sql.py"  # 800 tests of the catalogue
# The product is a plugin, loaded before pytest can rewrite its asserts.
_LOADED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
_PYTEST = ("-q", "-p", "no:cacheprovider", "-m", "not slow", "-k", "not moto", _SQL, *_LOADED)
_LINES_ALONE = -1  # in the place of a shard: only note which tests run which lines
_STATE = ROOT / ".longhaul" / "mutation.jsonl"


def main() -> int:
    """Exit code 1 when a change survives, or the list of reasons names one that is gone."""
    parser = argparse.ArgumentParser(
        prog="python -m simulation.tools.mutation", description=__doc__
    )
    parser.add_argument("modules", nargs="*", default=_MODULES, help="files, as patterns")
    parser.add_argument("--tests", nargs="+", default=_TESTS, help="files or folders")
    parser.add_argument("--sample", type=int, help="try only so many, chosen at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--test-s", type=float, default=60.0, help="seconds of CPU in tests")
    parser.add_argument("--world-s", type=float, default=20.0, help="seconds of CPU in worlds")
    parser.add_argument("--state", type=Path, default=_STATE)
    parser.add_argument("--shard", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if os.geteuid() == 0:
        parser.error("run it as a user who owns nothing else, because changed code deletes files")
    everything = _generated(options.modules)
    listed = reasons()
    work = _chosen([w for w in everything if w.place not in listed], options)
    if options.shard is not None:
        end_with_parent()
        _try_all(work[options.shard :: options.processes] if options.shard >= 0 else [], options)
        return 0
    _worker(_LINES_ALONE).wait()  # once for all
    workers = [_worker(shard) for shard in range(options.processes)]
    for worker in workers:
        worker.wait()
    _try_as_loaded(work, options)
    results = read(options.state)
    equivalent = Counter(each.file for each in everything if each.place in listed)
    survived = _report([(w, results[w.key]) for w in work if w.key in results], equivalent)
    gone = outdated(everything, listed)
    for file, line, _, change in gone:
        print(f"equivalent.toml lists what the code no longer has: {file}: {line}: {change}")
    return 1 if survived or gone else 0


def _worker(shard: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "simulation.tools.mutation", *sys.argv[1:]]
    return subprocess.Popen([*command, "--shard", str(shard)], cwd=ROOT)


def _generated(patterns: Sequence[str]) -> list[Work]:
    return [
        Work(str(path.relative_to(ROOT)), mutation)
        for pattern in patterns
        for path in sorted(ROOT.glob(pattern))
        for mutation in mutations(path.read_text())
    ]


def _chosen(work: list[Work], options: argparse.Namespace) -> list[Work]:
    random.Random(options.seed).shuffle(work)
    return work[: options.sample]


def _try_all(work: list[Work], options: argparse.Namespace) -> None:
    # Only now: the first process needs neither.
    import pytest  # noqa: PLC0415

    from simulation.tools.mutation.forked import Tried  # noqa: PLC0415
    from simulation.tools.mutation.tests_of import Survivor, TestsOf  # noqa: PLC0415
    from simulation.tools.mutation.worlds_of import on_worlds  # noqa: PLC0415

    before = read(options.state)

    def told(each: Survivor, found: Tried) -> None:
        file, mutation, passed = each
        key = Work(file, mutation).key
        world_s = before.get(key, NEVER_TRIED).world_s
        stage = "tests"
        if found.outcome == "survived" and world_s < options.world_s:
            world_s = options.world_s
            stage, found = "worlds", on_worlds(ROOT, file, mutation, world_s)
        result = Result(stage, found.outcome, found.by, tuple(sorted(passed)), world_s)
        add(options.state, key, result)
        print(f"{found.outcome:8} {file}:{mutation.line} {mutation.what}", file=sys.stderr)

    left = [
        Survivor(each.file, each.mutation, result.passed)
        for each in work
        for result in [before.get(each.key, NEVER_TRIED)]
        if result.outcome == "survived"
    ]
    options.state.parent.mkdir(parents=True, exist_ok=True)
    lines = options.state.with_suffix(".lines")
    plugin = TestsOf(ROOT, left, options.test_s, lines, told)
    pytest.main([*_PYTEST, *options.tests], plugins=[plugin])


def _try_as_loaded(work: list[Work], options: argparse.Namespace) -> None:
    """Try what a running process cannot apply, or has read already. This one has not loaded it."""
    from simulation.tools.mutation.loaded import on_tests_of_its_module  # noqa: PLC0415
    from simulation.tools.mutation.tests_of import seen_by  # noqa: PLC0415

    seen = seen_by(options.state.with_suffix(".lines"))
    results = read(options.state)
    for each in work:
        outcome = results.get(each.key, NEVER_TRIED).outcome
        is_constant = not each.mutation.scope
        if outcome == "not applied" or (outcome == "survived" and is_constant):
            change = each.file, each.mutation
            found = on_tests_of_its_module(*change, seen, _PYTEST, options.test_s)
            add(options.state, each.key, Result("tests", found.outcome, found.by))
            print(f"{found.outcome:8} {each.file}:{each.mutation.line}", file=sys.stderr)


def _report(results: list[tuple[Work, Result]], equivalent: Counter[str]) -> int:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for work, found in results:
        what = "survived" if found.outcome == "survived" else f"by {found.stage}"
        for file in (work.file, "all"):
            counts[file][found.outcome if found.outcome == "not applied" else what] += 1
    for file, number in equivalent.items():
        counts[file]["equivalent"] += number
        counts["all"]["equivalent"] += number
    head = ("tests", "worlds", "equal", "left")
    print(f"{'module':36} {'tried':>6} {' '.join(f'{each:>6}' for each in head)} {'noticed':>7}")
    for file, count in sorted(counts.items(), key=lambda pair: (pair[0] == "all", pair[0])):
        print(_row(file, count))
    survivors = [work for work, found in results if found.outcome == "survived"]
    for line in sorted(_lines(survivors)):
        print(line)
    not_applied = counts["all"]["not applied"]
    print(
        f"tried={len(results) - not_applied} not_applied={not_applied}"
        f" equivalent={counts['all']['equivalent']} survived={len(survivors)}"
    )
    return len(survivors)


def _row(file: str, count: Counter[str]) -> str:
    tests, worlds, left = count["by tests"], count["by worlds"], count["survived"]
    equivalent = count["equivalent"]
    tried = tests + worlds + equivalent + left
    share = f"{(tests + worlds) / tried:7.1%}" if tried else ""
    return f"{file:36} {tried:6} {tests:6} {worlds:6} {equivalent:6} {left:6} {share}"


def _lines(survivors: list[Work]) -> Iterator[str]:
    for file, each in survivors:
        where = f"{file}:{each.line:03} {each.scope}: {each.what}"
        yield f"{where}\n  - {each.old}\n  + {each.new}"


if __name__ == "__main__":
    sys.exit(main())
