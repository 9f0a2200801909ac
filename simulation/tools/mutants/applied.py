"""Loads modules of the product with a mutant's changes in them."""

import sys
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

from simulation.tools.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[3]


class StaleMutantError(Exception):
    """The code that a mutant changes is not in its file exactly once."""


def mutated(mutant: Mutant) -> Mapping[str, str]:
    """The sources of the mutant's modules with its changes in them, by file.

    Raises:
        StaleMutantError: a change does not apply.
    """
    sources: dict[str, str] = {}
    for change in mutant.changes:
        source = sources.get(change.file) or (ROOT / change.file).read_text()
        if (found := source.count(change.old)) != 1:
            raise StaleMutantError(f"{change.name}: its code is {found} times in {change.file}")
        sources[change.file] = source.replace(change.old, change.new)
    return sources


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
