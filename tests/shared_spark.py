"""Which files of tests use the one session of Spark, by their text.

A session takes half a minute of CPU until it is warm, so one worker runs all of them. The other
files of tests/runner run on any worker. A file uses the session if one of its functions has a
fixture as an argument that leads to `spark`, or asks for one by its name.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = "tests/runner/"
_FIXTURES: Final = (FOLDER + "conftest.py", "longhaul/testing/__init__.py")
_BY_NAME: Final = ("getfixturevalue", "usefixtures")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def uses_spark(file: str) -> bool:
    """Whether the tests of a file, a path within the repository, use the session."""
    return file.startswith(FOLDER) and uses(_tree(file), leading_to_spark())


@cache
def leading_to_spark() -> frozenset[str]:
    """The fixtures that use the session, directly or through others, and those that may."""
    functions = [each for file in _FIXTURES for each in _functions(_tree(file))]
    found = {"spark"}
    while more := {each.name for each in functions if uses(each, found)} - found:
        found |= more
    return frozenset(found)


def uses(code: ast.AST, fixtures: frozenset[str] | set[str]) -> bool:
    """Whether a function in the code has one of the fixtures as an argument, or asks for one."""
    return any(name in fixtures for name in _asked(code))


def _asked(code: ast.AST) -> Iterator[str]:
    for function in _functions(code):
        yield from (each.arg for each in (*function.args.args, *function.args.kwonlyargs))
    for each in ast.walk(code):
        if isinstance(each, ast.Call) and _name(each.func) in _BY_NAME:
            yield from (str(arg.value) for arg in each.args if isinstance(arg, ast.Constant))


def _functions(code: ast.AST) -> Iterator[_Function]:
    return (each for each in ast.walk(code) if isinstance(each, _Function))


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else ""


def _tree(file: str) -> ast.Module:
    return ast.parse((_ROOT / file).read_text())
