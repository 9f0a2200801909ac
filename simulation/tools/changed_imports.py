"""Imports modules with other code than that of their files, which stay as they are."""

import ast
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType

Change = Callable[[Path], ast.Module]
"""Returns what is compiled in the place of a file's code."""


def change_imports(
    is_changed: Callable[[str], bool], change: Change, names: Mapping[str, object] | None = None
) -> None:
    """Change modules that this process imports from now on.

    Args:
        is_changed: Whether the module of that name is changed.
        change: What becomes of it.
        names: Of objects that the changed code may use.

    Raises:
        RuntimeError: one of the modules is loaded already.
    """
    if loaded := next(filter(is_changed, sys.modules), None):
        raise RuntimeError(f"{loaded} is loaded already")
    sys.meta_path.insert(0, _Finder(is_changed, change, names or {}))


class _Finder(MetaPathFinder):
    def __init__(
        self, is_changed: Callable[[str], bool], change: Change, names: Mapping[str, object]
    ) -> None:
        self._is_changed = is_changed
        self._change = change
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not self._is_changed(fullname):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, str(spec.origin), self._change, self._names)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, change: Change, names: Mapping[str, object]) -> None:
        super().__init__(name, path)
        self._change = change
        self._names = names

    def get_code(self, fullname: str) -> CodeType:
        """Compiled at each import: no cache gets changed code."""
        path = self.get_filename(fullname)
        code: CodeType = compile(self._change(Path(path)), path, "exec")
        return code

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._names)
        super().exec_module(module)
