"""What a job's imports need of Spark: functions of MLlib, and modules that travel with its tasks.

The lighter class path of `longhaul.runner.spark.jvm` does not add `vector_to_array` and
`array_to_vector` to every session: it is done for jobs that import MLlib.
"""

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from pyspark import SparkContext, cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession

_MLLIB: Final = "pyspark.ml"
# Loading it adds the functions, for all sessions of the JVM.
_ADDS_THEM: Final = "org.apache.spark.sql.ml.InternalFunctionRegistration$"
_OF_A_SESSION: Final = (SparkContext, SparkSession, DataFrame, Column)


def add_functions_when_imported(session: SparkSession) -> None:
    """Add the functions as soon as `pyspark.ml` is imported; at once if it was."""
    sys.meta_path.insert(0, _AtImport(session))
    # Another thread may have imported the job meanwhile. To add them again does nothing.
    if _MLLIB in sys.modules:
        _add(session)


class _AtImport(importlib.abc.MetaPathFinder):
    """Finds nothing, and hears of each import first."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the import system's
        target: ModuleType | None = None,  # noqa: ARG002 - as above
    ) -> ModuleSpec | None:
        if fullname == _MLLIB:
            sys.meta_path.remove(self)
            _add(self._session)
        return None


def _add(session: SparkSession) -> None:
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no public way
    jvm.java.lang.Class.forName(_ADDS_THEM)


def send_along(module: ModuleType) -> None:
    """Let what Spark's Python workers run of a module that they cannot import travel to them."""
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def send_along_if_needed(module: ModuleType) -> None:
    """Let it travel if it holds what is made in a session, such as a UDF: a worker has none."""
    # `evalType`: of a UDF, which is wrapped.
    if any(
        isinstance(value, _OF_A_SESSION) or hasattr(value, "evalType")
        for value in vars(module).values()
    ):
        send_along(module)
