"""Loads modules of the product with a mutant's changes in them.

Changes are matched in the module as `ast.unparse` writes it, without regard to white space, quotes
and trailing commas. So neither formatting nor comments make a mutant stale.
"""

import ast
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from textwrap import dedent, indent
from types import CodeType

from simulation.tools.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[3]

_IGNORED = re.compile(r",?\s*(?=[)\]}]|\Z)|\s+")


class StaleMutantError(Exception):
    """The code that a mutant changes is not in its file exactly once."""


def mutated(mutant: Mutant) -> Mapping[str, str]:
    """The sources of the mutant's modules with its changes in them, by file.

    Raises:
        StaleMutantError: a change does not apply.
    """
    sources: dict[str, str] = {}
    for change in mutant.changes:
        if change.file not in sources:
            sources[change.file] = _unparsed(change.file)
        sources[change.file] = changed(sources[change.file], change)
    return sources


def changed(source: str, change: Mutant) -> str:
    """The source, as `ast.unparse` writes it, with one change."""
    text, places = _essence(source)
    wanted, _ = _essence(_normal(change.old))
    found = text.count(wanted)
    if found != 1:
        raise StaleMutantError(f"{change.name}: its code is {found} times in {change.file}")
    at = text.index(wanted)
    start, end = places[at], places[at + len(wanted) - 1] + 1
    line = source.rfind("\n", 0, start) + 1
    margin = source[line:start]
    new = change.new.strip().removesuffix(",")  # the old code's trailing comma stays
    if not margin.strip() and source[end : end + 1] in ("", "\n"):
        # Whole statements: indented like the old ones, and a body never becomes empty.
        new = indent(_normal(new) or "pass", margin).lstrip()
    return source[:start] + new + source[end:]


def apply(mutant: Mutant) -> None:
    """Import the mutant from now on in this process.

    Raises:
        RuntimeError: one of its modules is loaded already.
    """
    sources = {
        file.removesuffix(".py").replace("/", "."): source
        for file, source in mutated(mutant).items()
    }
    if loaded := sources.keys() & sys.modules.keys():
        raise RuntimeError(f"loaded already: {loaded}")
    as_it_is = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, module: str) -> CodeType | None:
        """Compiled at each import: no cache gets changed code."""
        if module not in sources:
            return as_it_is(loader, module)
        code: CodeType = compile(sources[module], loader.path, "exec")
        return code

    SourceFileLoader.get_code = get_code  # type: ignore[assignment,method-assign]


@cache
def _unparsed(file: str) -> str:
    return ast.unparse(ast.parse((ROOT / file).read_text()))


def _normal(fragment: str) -> str:
    """As `ast.unparse` writes it; a fragment that is no whole statement stays as it is."""
    first, newline, rest = fragment.partition("\n")
    # The second form is a copy of some lines of a body without the first one's indentation.
    for statements in (dedent(fragment), first + newline + dedent(rest)):
        with suppress(SyntaxError):
            return ast.unparse(ast.parse(statements))
    return fragment.strip()


@cache
def _essence(text: str) -> tuple[str, list[int]]:
    """The text without white space and trailing commas, and the place of each of its characters."""
    ignored = {place for match in _IGNORED.finditer(text) for place in range(*match.span())}
    places = [place for place in range(len(text)) if place not in ignored]
    return "".join(text[place] for place in places).replace('"', "'"), places
