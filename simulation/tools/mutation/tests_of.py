"""A pytest plugin that tries mutations on the tests that run the changed lines.

All tests are collected once. One fork runs them and notes the lines of each. Then each mutation
gets a fork, in which only those tests run, the quickest first, until one fails.
"""

import pickle
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from simulation.tools.mutation.forked import NOT_APPLIED, Tried, tried
from simulation.tools.mutation.operators import Mutation
from simulation.tools.mutation.patched import NotAppliedError, apply

_LONGEST_S = 3_600.0
_SLACK_S = 30.0

Told = Callable[[str, Mutation, Tried], None]


class TestsOf:
    """Runs in the place of pytest's loop over the tests."""

    __test__ = False

    def __init__(
        self, root: Path, work: Iterable[tuple[str, Mutation]], cache: Path, told: Told
    ) -> None:
        self._root = root
        self._work = work
        self._cache = cache
        self._told = told
        self._say: Callable[[str], None] = lambda _: None
        self._failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if not self._cache.exists():
            tried(lambda _: self._note_lines(session.items), _LONGEST_S)
        tests, lines = pickle.loads(self._cache.read_bytes())  # noqa: S301 - our own file
        items = {item.nodeid: item for item in session.items}
        for file, mutation in self._work:
            found_on = lines.get((file, mutation.line)) or lines.get((file, mutation.statement), ())
            # What runs when a module is loaded is seen by no test's lines: any may notice it.
            covering = sorted(found_on if mutation.scope else tests, key=tests.__getitem__)
            chosen = [items[name] for name in covering if name in items]
            limit_s = _SLACK_S + 10 * sum(tests[name] for name in covering)
            found = Tried("survived", "no test runs it")
            if chosen:
                found = tried(self._attempt(file, mutation, chosen), limit_s)
            self._told(file, mutation, found)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = True
            self._say(report.nodeid)

    def _attempt(
        self, file: str, mutation: Mutation, items: list[pytest.Item]
    ) -> Callable[[Callable[[str], None]], int]:
        def attempt(say: Callable[[str], None]) -> int:
            self._say = say
            try:
                apply(mutation, str(self._root / file), module_of(file))
            except NotAppliedError:
                return NOT_APPLIED
            for _ in self._run(items):
                if self._failed:
                    return 1
            return 0

        return attempt

    def _run(self, items: list[pytest.Item]) -> Iterator[pytest.Item]:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item

    def _note_lines(self, items: list[pytest.Item]) -> int:
        """Run all tests, and keep the seconds of each and the lines that it runs."""
        tests: dict[str, float] = {}
        lines: dict[tuple[str, int], set[str]] = defaultdict(set)
        run: set[tuple[str, int]] = set()
        product = f"{self._root}/longhaul/"

        def trace(frame: FrameType, event: str, _arg: Any) -> Any:
            name = frame.f_code.co_filename
            if not name.startswith(product):
                return None
            if event == "line":
                run.add((name[len(str(self._root)) + 1 :], frame.f_lineno))
            return trace

        threading.settrace(trace)
        sys.settrace(trace)
        began = time.perf_counter()
        for item in self._run(items):
            if not self._failed:
                tests[item.nodeid] = time.perf_counter() - began
                for line in run:
                    lines[line].add(item.nodeid)
            self._failed = False
            run.clear()
            sys.settrace(trace)
            began = time.perf_counter()
        sys.settrace(None)
        self._cache.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._cache.with_suffix(".new")
        temporary.write_bytes(pickle.dumps((tests, dict(lines))))
        temporary.replace(self._cache)
        return 0


def module_of(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")
