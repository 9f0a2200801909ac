"""The size of each room of the repository, in statements, beside its ceiling.

`make size` prints it. Docstrings, comments, blank lines and line breaks cost nothing, so denser
lines win nothing. `tests/ceilings.toml` has the ceilings.
"""

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.layers import ROOT, python_files

CEILINGS: Final[Mapping[str, int]] = tomllib.loads(
    Path(__file__).with_name("ceilings.toml").read_text("utf-8")
)
TOPS: Final = (
    "benchmarks",
    "docs",
    "examples",
    "functions",
    "infra",
    "longhaul",
    "simulation",
    "tests",
)
WITH_ROOMS: Final = ("longhaul", "simulation", "tests")


def statements(source: str) -> int:
    """How many statements a module has, without docstrings."""
    return sum(
        isinstance(node, ast.stmt) and not _is_docstring(node)
        for node in ast.walk(ast.parse(source))
    )


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and (
        isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


def rooms_of(file: Path) -> Iterator[str]:
    """Names of the rooms that a file counts in, such as `longhaul` and `longhaul/cdk`."""
    top, *below = file.relative_to(ROOT).parts
    yield "all"
    yield top
    if top in WITH_ROOMS:
        yield f"{top}/{below[0] if len(below) > 1 else '*.py'}"


def sizes() -> Mapping[str, int]:
    """Statements by room."""
    found: Counter[str] = Counter()
    for top in TOPS:
        for file in python_files(ROOT / top):
            count = statements(file.read_text("utf-8"))
            found.update(dict.fromkeys(rooms_of(file), count))
    return found


def main() -> None:
    for room, size in sorted(sizes().items()):
        sys.stdout.write(f"{room:24} {size:7} {CEILINGS.get(room, ''):>7}\n")


if __name__ == "__main__":
    main()
