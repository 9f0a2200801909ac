"""Imports modules of a project's jobs as a task does: Spark's when a session exists."""

import importlib.abc
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType


class JobFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of the jobs, in their folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        if not Path(spec.loader.path).resolve().is_relative_to(self._folder):
            return None
        spec.loader = _JobLoader(spec.loader.name, spec.loader.path)
        return spec


class _JobLoader(SourceFileLoader):
    def _is_of_spark(self) -> bool:
        """Whether it might use a session. A module that jobs share may make UDFs."""
        return b"spark" in self.get_data(self.path)

    def exec_module(self, module: ModuleType) -> None:
        if not self._is_of_spark():
            super().exec_module(module)
            return
        # Only here: tests that import no job need no Spark.
        import_module("longhaul.testing.session").SESSION.get()
        super().exec_module(module)
        import_module("longhaul.runner.spark.imports").send_along_if_needed(module)
