"""Loads one module of the product with a line of it changed. The files stay as they are: the change is made as Python reads the source."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tests.simulation.mutants.catalogue import Mutant

ROOT = Path(__file__).resolve().parents[3]


class StaleMutantError(Exception):
    """The text that the mutant changes is not in the code just once: the code has moved on, and the mutant must follow."""


def mutated(mutant: Mutant) -> str:
    """The module's source with the change in it.

    Raises:
        StaleMutantError: the change does not apply.
    """
    source = (ROOT / mutant.file).read_text()
    found = source.count(mutant.old)
    if found != 1:
        raise StaleMutantError(f"{mutant.name}: its text is {found} times in {mutant.file}, not once")
    return source.replace(mutant.old, mutant.new)


def apply(mutant: Mutant) -> None:
    """From now on this process imports the mutant; the module must not be loaded yet."""
    files = [change.file for change in mutant.changes]
    if len(set(files)) != len(files):
        raise ValueError(f"{mutant.name}: only one change to a file takes effect; write both as one")
    for change in mutant.changes:
        name = change.file.removesuffix(".py").replace("/", ".")
        if name in sys.modules:
            raise RuntimeError(f"{name} is loaded already")
        sys.meta_path.insert(0, _Finder(name, mutated(change)))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname != self._name:
            return None
        return importlib.util.spec_from_loader(fullname, _Loader(fullname, self._source))


class _Loader(importlib.abc.InspectLoader):
    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._source = source

    def get_source(self, fullname: str) -> str:
        del fullname
        return self._source
