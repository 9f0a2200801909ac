"""Regular expressions see texts of strangers: none of them is worse than linear.

The standard library's engine backtracks, so a pattern can take time that grows with the square of
the text, or faster. Each pattern of the shipped code is tried, with the calls that the code makes,
on hostile texts of one length and of twice that length.
"""

import ast
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("longhaul", "functions")
CALLS: dict[str, Callable[[re.Pattern[str], str], Any]] = {
    "search": lambda pattern, text: pattern.search(text),
    "match": lambda pattern, text: pattern.match(text),
    "fullmatch": lambda pattern, text: pattern.fullmatch(text),
    "findall": lambda pattern, text: pattern.findall(text),
    "finditer": lambda pattern, text: list(pattern.finditer(text)),
    "split": lambda pattern, text: pattern.split(text),
    "sub": lambda pattern, text: pattern.sub("", text),
}
# Repeated to a text, and repeated in one long line or one that breaks off before its end.
SEEDS = (
    *(
        "a",
        "0",
        " ",
        "\n",
        "\t",
        "-",
        "_",
        ".",
        "/",
        "=",
        "'",
        '"',
        "(",
        "{",
        "[",
        "é",
        "'\"",
        "\n ",
        "\\'",
        "''",
        "--",
        "/*",
        "$a",
    ),
    "( executor ",
    "most recent failure: Lost task ",
    "most recent failure: Lost task (",
    "\nCaused by: x",
    "\nCaused by: x\n at ",
    "Caused by: ",
    "\n at a",
    "\nat a.b(",
    "\n== SQL",
    "\n... 1",
    "ExecutorLostFailure ",
    "ExecutorLostFailure exit code ",
    "java.lang.OutOfMemoryErro",
    "Error",
    "aError: ",
    "\nA.Error: x",
    "ExitCode: ",
    "ExitCode: 1",
    "limit exceede",
    "Capacity is unavailabl",
    "{inputs.a",
    "; line 1 pos ",
    "0123456789abcdef0123-1",
    "0a1b2c3d-0a1b-",
    "a 1 ",
)
SHORT = 3_000
LONG = 100_000
SLACK_S = 0.02


def patterns() -> Iterator[Any]:
    """Every pattern that a module compiles for itself, with each call that it makes of it."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            yield from _patterns_in(file)


def _patterns_in(file: Path) -> Iterator[Any]:
    text = file.read_text()
    if "re.compile" not in text:
        return  # most files: each worker of a run reads all of them as it collects
    tree = ast.parse(text)
    compiled: dict[str, re.Pattern[str]] = {}
    for node in tree.body:
        value = getattr(node, "value", None)
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "re.compile":
            (target,) = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore[attr-defined]
            if all(isinstance(each, ast.Constant) for each in value.args[:1]):
                compiled[ast.unparse(target)] = eval(ast.unparse(value), {"re": re})  # noqa: S307 - our own source
    for name, pattern in compiled.items():
        calls = {
            node.func.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == name
        }
        for call in sorted(calls):
            id_ = f"{file.relative_to(ROOT)}:{name}.{call}"
            yield pytest.param(pattern, call, id=id_)


def work(pattern: re.Pattern[str], call: str, text: str, enough: float = 0.0) -> float:
    """Seconds of CPU time, the least of three tries; no further one after `enough` or less."""
    least = float("inf")
    for _ in range(3):
        began = time.thread_time()
        CALLS[call](pattern, text)
        least = min(least, time.thread_time() - began)
        if least <= enough:
            break
    return least


@pytest.mark.parametrize(("pattern", "call"), list(patterns()))
def test_pattern_takes_twice_the_work_for_twice_the_text(
    pattern: re.Pattern[str], call: str
) -> None:
    for seed in SEEDS:
        short, double, long = (seed * (size // len(seed)) for size in (SHORT, 2 * SHORT, LONG))
        once = work(pattern, call, short)
        limit = 3 * once + SLACK_S
        assert work(pattern, call, double, limit) <= limit, seed
        # Only now: with a square this would take minutes.
        limit = 6 * LONG / SHORT * once + 1
        assert work(pattern, call, long, limit) <= limit, seed


def test_every_pattern_that_a_module_compiles_is_tried() -> None:
    found = {str(each.id).partition(":")[0] for each in patterns()}
    assert {
        "longhaul/runner/failures.py",
        "longhaul/core/verdict.py",
        "longhaul/runner/masking.py",
    } <= found
