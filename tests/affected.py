"""A plugin of pytest: files of tests that passed, and that no change since can affect, do not run.

`make check` runs with it; `make test` and CI run everything. A file of tests runs again when
something changed that it may lean on, by content and not by the clock:

* what it and its conftests import, directly or not, as ruff's import graph shows it;
* any file that is neither Python nor Markdown, such as an event, a lock or pyproject.toml;
* any file at all where it, or a module of `tests` that it imports, reads code or pages or starts
  processes (`_READS`), but for what the conftest of all tests imports;
* the interpreter, and what is installed.

An import by a computed name is declared to ruff, in pyproject.toml. We do not use pytest-testmon:
it sees what tests execute, so it misses a changed constant, file or page.
"""

import hashlib
import json
import re
import subprocess
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

# Neither a path in a bucket nor the name of a recording, and no name of a test.
_READS: Final = re.compile(
    r"\.py\b(?!::)|\.md\b|subprocess|sys\.executable|getsource|\bpython_files\b|\bfiles_of\b"
)
_PLACE: Final = re.compile(r"\bs3://[^\s\"']*")
_STORED: Final = "longhaul/passed"


class Checkout:
    """The files that git knows or would add, and what they import of each other."""

    def __init__(self, root: Path) -> None:
        self._root = root
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        self._digests = {
            name: hashlib.sha256((root / name).read_bytes()).hexdigest()
            for name in sorted(set(self._output(*listing).rstrip("\0").split("\0")))
            if (root / name).is_file()
        }
        ruff = str(Path(sys.executable).with_name("ruff"))
        graph = self._output(ruff, "analyze", "graph", "--quiet", "--no-type-checking-imports")
        self._imports: dict[str, list[str]] = json.loads(graph)

    def _output(self, *command: str) -> str:
        return subprocess.run(
            command, cwd=self._root, check=True, capture_output=True, text=True
        ).stdout

    def digest(self, test: str) -> str:
        """Of all that a file of tests may lean on."""
        python = set(self._imported(test))
        own = python - self._of_all
        if any(each.startswith("tests/") and self._reads(each) for each in own):
            names = set(self._digests)
        else:
            names = python | self._data
        lines = [f"{name} {self._digests[name]}" for name in sorted(names)]
        return hashlib.sha256("\n".join([self._environment, *lines]).encode()).hexdigest()

    def _imported(self, test: str) -> Iterator[str]:
        """The file itself, its conftests and `__init__.py`, and whatever they import."""
        found: set[str] = set()
        left = [test, *self._above(test, "conftest.py")]
        while left:
            if (name := left.pop()) in self._digests and name not in found:
                found.add(name)
                left += [*self._imports.get(name, ()), *self._above(name, "__init__.py")]
                yield name

    @staticmethod
    def _above(name: str, file: str) -> list[str]:
        return [(folder / file).as_posix() for folder in Path(name).parents]

    def _reads(self, name: str) -> bool:
        return bool(_READS.search(_PLACE.sub("", (self._root / name).read_text())))

    @cached_property
    def _of_all(self) -> set[str]:
        """What the conftest of all tests imports: it may read files to place tests on workers."""
        return set(self._imported("tests/conftest.py"))

    @cached_property
    def _data(self) -> set[str]:
        return {name for name in self._digests if Path(name).suffix not in (".py", ".md")}

    @cached_property
    def _environment(self) -> str:
        installed = Path(sysconfig.get_path("purelib")).glob("*.dist-info")
        return " ".join([sys.version, *sorted(each.name for each in installed)])


class Affected:
    """Chooses at the start, and keeps at the end what passed."""

    def __init__(self, config: pytest.Config) -> None:
        root = config.rootpath
        self._cache: Any = config.cache
        self._asked = f"{config.option.markexpr!r} {config.option.keyword!r}"
        checkout = Checkout(root)
        tests = {
            file.relative_to(root).as_posix()
            for folder in config.args
            for file in (config.invocation_params.dir / folder).rglob("test_*.py")
        }
        self._digests = {test: checkout.digest(test) for test in tests}
        passed: Mapping[str, str] = self._cache.get(_STORED, {}).get(self._asked, {})
        self.left_out = {test for test in tests if passed.get(test) == self._digests[test]}
        self._failed: dict[str, bool] = defaultdict(bool)

    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["left_out"] = sorted(self.left_out)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    # A file that cannot be imported has no test that could fail.
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        self._failed[report.nodeid.partition("::")[0]] |= report.failed

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.left_out:
            session.exitstatus = pytest.ExitCode.OK
        yield  # other plugins fail a run as a whole (`tests/left_behind.py`)
        is_due_to_tests = session.exitstatus == pytest.ExitCode.TESTS_FAILED and any(
            self._failed[test] for test in self._digests
        )
        ran_all = is_due_to_tests or session.exitstatus == pytest.ExitCode.OK
        if ran_all and not session.shouldstop and not session.shouldfail:
            passed = {
                test: digest for test, digest in self._digests.items() if not self._failed[test]
            }
            self._cache.set(_STORED, {**self._cache.get(_STORED, {}), self._asked: passed})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left_out:
            terminalreporter.write_line(
                f"{len(self.left_out)} of {len(self._digests)} files of tests were left out:"
                " they passed, and nothing that they lean on has changed since"
            )


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        left_out = set(config.workerinput["left_out"])
    else:
        affected = Affected(config)
        left_out = affected.left_out
        config.pluginmanager.register(affected, "affected")
    config.stash[_LEFT_OUT] = {config.rootpath / each for each in left_out}


_LEFT_OUT: Final = pytest.StashKey[set[Path]]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path in config.stash[_LEFT_OUT] else None
