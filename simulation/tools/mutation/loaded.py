"""Tries a mutation of code that runs when its module is loaded, as class bodies and defaults do.

The product must not be loaded in this process: a fork loads it with the mutation, then runs the
test files that run any of the module's lines.
"""

import ast
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from simulation.tools.mutants.applied import load
from simulation.tools.mutation.forked import Tried, tried
from simulation.tools.mutation.operators import Mutation
from simulation.tools.mutation.tests_of import Seen, module_of

_LOADING_S = 60.0
_LOADED_ONCE = ("aws_lambda_powertools", "boto3", "hypothesis", "pydantic")


def on_tests_of_its_module(
    file: str, mutation: Mutation, seen: Mapping[str, Seen], arguments: Sequence[str], cpu_s: float
) -> Tried:
    """Run one test file after the other until one fails: first those that name the module."""
    for other in _LOADED_ONCE:  # each fork has them at once
        importlib.import_module(other)
    covering = [name for name, of in seen.items() if any(path == file for path, _ in of.lines)]
    module = module_of(file)
    covering.sort(
        key=lambda name: (module not in Path(name).read_text(), sum(seen[name].tests.values()))
    )

    def attempt(say: Callable[[str], None]) -> int:
        load(file, ast.unparse(mutation.make()))
        for name in covering:
            code = pytest.main([*arguments, "-x", name], plugins=[_FirstFailure(say)])
            if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return 1
        return 0

    return tried(attempt, cpu_s + _LOADING_S)


class _FirstFailure:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._say(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._say(report.nodeid)
