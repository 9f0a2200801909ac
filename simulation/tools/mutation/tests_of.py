"""A pytest plugin that tries mutations on the tests that run the changed lines.

All tests are collected once. One fork runs them and notes the lines of each. Then each mutation
gets a fork, in which only those tests run until one fails: first those that have noticed other
changes of the same function, then the quickest.
"""

import gc
import itertools
import pickle
import re
import signal
import sys
import threading
import time
import warnings
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from simulation.tools.mutation.forked import (
    NOT_APPLIED,
    Tried,
    end_this_process_after,
    tried,
)
from simulation.tools.mutation.operators import Mutation
from simulation.tools.mutation.patched import PRODUCT, NotAppliedError, apply, assigned_by

_LONGEST_S = 3_600.0
_SLACK_S = 4.0


class Survivor(NamedTuple):
    """A mutation that no test has noticed so far.

    Attributes:
        passed: Digests of the test files that it has passed.
    """

    file: str
    mutation: Mutation
    passed: Collection[str] = ()


Told = Callable[[Survivor, Tried], None]
_Line = tuple[str, int]


class Seen(NamedTuple):
    """What one test file runs: seconds by test, and the tests by line."""

    digest: str  # of the test file and of the product
    tests: dict[str, float]
    lines: dict[_Line, set[str]]


def seen_by(cache: Path) -> dict[str, Seen]:
    """What each test file runs, as it was noted."""
    if not cache.exists():
        return {}
    seen: dict[str, Seen] = pickle.loads(cache.read_bytes())  # noqa: S301 - our own file
    return seen


class TestsOf:
    """Runs in the place of pytest's loop over the tests."""

    __test__ = False

    def __init__(
        self, root: Path, work: Iterable[Survivor], test_s: float, cache: Path, told: Told
    ) -> None:
        self._root = root
        self._work = work
        self._test_s = test_s
        self._cache = cache
        self._told = told
        self._say: Callable[[str], None] = lambda _: None
        self._failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        files = {item.nodeid: item.nodeid.partition("::")[0] for item in session.items}
        digests = {file: _digest([self._root / file]) for file in set(files.values())}
        self._note_lines(session.items, files, digests)
        if not self._work:
            return True
        seconds: dict[str, float] = {}
        lines: dict[_Line, set[str]] = defaultdict(set)
        for seen in seen_by(self._cache).values():
            seconds |= seen.tests
            for line, tests in seen.lines.items():
                lines[line] |= tests
        noticed: Counter[tuple[str, str]] = Counter()
        gc.freeze()  # otherwise each fork copies what its collector visits
        for each in self._work:
            scope = each.mutation.scope
            names = [
                name
                for name in self._covering(each.file, each.mutation, lines)
                if name in items and digests[files[name]] not in each.passed
            ]
            names.sort(key=lambda name: (-noticed[scope, name], seconds[name]))
            costs = itertools.accumulate(seconds[name] for name in names)
            chosen = names[: bisect(list(costs), self._test_s)]
            found = self._tried(each, [items[name] for name in chosen], seconds)
            noticed[scope, found.by] += 1
            passed = {*each.passed, *(digests[files[name]] for name in chosen)}
            passed -= {digests[files[name]] for name in names[len(chosen) :]}
            self._told(each._replace(passed=passed), found)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = True
            self._say(report.nodeid)

    def _covering(
        self, file: str, mutation: Mutation, lines: dict[_Line, set[str]]
    ) -> Collection[str]:
        if mutation.scope:
            return lines.get((file, mutation.line)) or lines.get((file, mutation.statement), set())
        name = assigned_by(mutation)
        return {
            test
            for path, number in (self._mentions(name) if name else ())
            for test in lines.get((path, number), ())
        }

    def _product(self) -> list[Path]:
        return sorted(path for each in PRODUCT for path in self._root.glob(f"{each}/**/*.py"))

    def _mentions(self, name: str) -> Iterator[_Line]:
        word = re.compile(rf"\b{name}\b")
        for path in self._product():
            for number, text in enumerate(path.read_text().splitlines(), 1):
                if word.search(text):
                    yield str(path.relative_to(self._root)), number

    def _tried(self, each: Survivor, items: list[pytest.Item], seconds: dict[str, float]) -> Tried:
        plain = [item for item in items if isinstance(item, pytest.Function) and _is_plain(item)]
        found = self._tried_at_once(each, plain)
        others = [item for item in items if item not in plain]
        if found.outcome != "survived" or not others:
            return found
        limit_s = sum(_limit_s(seconds[item.nodeid]) for item in others)
        return tried(self._attempt(each, others, seconds), limit_s)

    def _tried_at_once(self, each: Survivor, items: list[pytest.Function]) -> Tried:
        """Tests without fixtures leave nothing behind, so that they need no fork."""
        try:
            undo = apply(each.mutation, str(self._root / each.file), module_of(each.file))
        except NotAppliedError:
            return Tried("not applied", "")
        except Exception as error:  # noqa: BLE001 - any error is a find
            return Tried("killed", f"{type(error).__name__}: {error}")
        try:
            by = next((item.nodeid for item in items if _fails(item)), None)
        finally:
            undo()
        return Tried("survived", "") if by is None else Tried("killed", by)

    def _attempt(
        self, tried_on: Survivor, items: list[pytest.Item], seconds: dict[str, float]
    ) -> Callable[[Callable[[str], None]], int]:
        file, mutation, _ = tried_on

        def attempt(say: Callable[[str], None]) -> int:
            self._say = say
            try:
                apply(mutation, str(self._root / file), module_of(file))
            except NotAppliedError:
                return NOT_APPLIED
            end_this_process_after(_limit_s(seconds[items[0].nodeid]))
            for _, following in zip(self._run(items), [*items[1:], None], strict=True):
                if self._failed:
                    return 1
                if following:
                    end_this_process_after(_limit_s(seconds[following.nodeid]))
            return 0

        return attempt

    def _run(self, items: list[pytest.Item]) -> Iterator[pytest.Item]:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item

    def _note_lines(
        self, items: list[pytest.Item], files: dict[str, str], digests: dict[str, str]
    ) -> None:
        product = _digest(self._product())
        wanted = {file: f"{digest} {product}" for file, digest in digests.items()}
        seen = {
            file: of for file, of in seen_by(self._cache).items() if wanted.get(file) == of.digest
        }
        new = [item for item in items if files[item.nodeid] not in seen]
        if not new:
            return
        for item in new:
            seen[files[item.nodeid]] = Seen(wanted[files[item.nodeid]], {}, defaultdict(set))

        def note(_say: object) -> int:
            for name, cost, run in self._lines_of(new):
                of_file = seen[files[name]]
                of_file.tests[name] = cost
                for line in run:
                    of_file.lines[line].add(name)
            temporary = self._cache.with_suffix(".new")
            temporary.write_bytes(pickle.dumps(seen))
            temporary.replace(self._cache)
            return 0

        found = tried(note, _LONGEST_S)
        if found.outcome != "survived":
            raise RuntimeError(f"the lines of the tests could not be noted: {found.by}")

    def _lines_of(self, items: list[pytest.Item]) -> Iterator[tuple[str, float, set[_Line]]]:
        """Run the tests that pass, and return the seconds of each and the lines that it runs."""
        run: set[_Line] = set()
        product = tuple(f"{self._root}/{package}/" for package in PRODUCT)
        names: dict[CodeType, str | None] = {}

        def trace(frame: FrameType, event: str, _arg: Any) -> Any:
            code = frame.f_code
            if code not in names:
                ours = code.co_filename.startswith(product)
                names[code] = code.co_filename[len(str(self._root)) + 1 :] if ours else None
            name = names[code]
            if name is None:
                return None
            if event == "line":
                run.add((name, frame.f_lineno))
            return trace

        threading.settrace(trace)
        sys.settrace(trace)
        began = time.process_time()
        for item in self._run(items):
            if not self._failed:
                yield item.nodeid, time.process_time() - began, run
            self._failed = False
            run.clear()
            sys.settrace(trace)
            began = time.process_time()
        sys.settrace(None)


def _limit_s(noted_s: float) -> float:
    """Seconds of CPU after which a test is in a loop. It was noted with tracing, which is slow."""
    return _SLACK_S + 3 * noted_s


def _is_plain(item: pytest.Function) -> bool:
    given = item.callspec.params if hasattr(item, "callspec") else {}
    is_drawn = hasattr(item.obj, "hypothesis")
    return not is_drawn and item.cls is None and set(item.fixturenames) == set(given)


class _TooLong(BaseException):
    pass


def _raise_too_long(*_: object) -> None:
    raise _TooLong


def _fails(item: pytest.Function) -> bool:
    given = item.callspec.params if hasattr(item, "callspec") else {}
    signal.signal(signal.SIGVTALRM, _raise_too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SLACK_S)
    try:
        with warnings.catch_warnings():
            item.obj(**given)
    except BaseException:  # noqa: BLE001 - any error is a find
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return False


def module_of(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _digest(files: Iterable[Path]) -> str:
    digest = sha256()
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
