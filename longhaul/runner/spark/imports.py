"""Modules that travel with Spark's tasks."""

from types import ModuleType
from typing import Final

from pyspark import SparkContext, cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession

_OF_A_SESSION: Final = (SparkContext, SparkSession, DataFrame, Column)


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
