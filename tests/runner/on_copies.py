"""Says what Spark can do on the lighter class path: `python -m tests.runner.on_copies FOLDER`."""

import importlib
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.classic.column import Column

from longhaul.runner.resources import Resources
from longhaul.runner.spark import jvm
from longhaul.runner.spark.gateway import Gateway
from longhaul.runner.spark.imports import add_functions_when_imported
from longhaul.runner.spark.session import build_session, session_options

_RESOURCES = Resources(cores=2, memory_mib=2048)


def main(copies: Path, folder: Path) -> None:
    jvm.cache_folder = lambda: copies
    gateway = Gateway(folder, _RESOURCES, aot=[])
    try:
        gateway.attach()
        spark: Any = build_session("copies", session_options(_RESOURCES, folder))
        janino = spark._jvm.java.lang.Class.forName("org.codehaus.janino.UnitCompiler")
        print("signed" if janino.getSigners() else "unsigned")  # noqa: T201
        print(f"before: {vectors(spark)}")  # noqa: T201
        add_functions_when_imported(spark)
        with suppress(ImportError):  # it needs NumPy; the import was heard all the same
            importlib.import_module("pyspark.ml")
        print(f"after: {vectors(spark)}")  # noqa: T201
    finally:
        gateway.stop()


def vectors(spark: SparkSession) -> str:
    """An array that became a vector and an array again."""
    jvm: Any = spark._jvm  # `pyspark.ml` needs NumPy
    functions = jvm.org.apache.spark.ml.functions
    there = functions.array_to_vector(jvm.org.apache.spark.sql.functions.expr("array(1D, 2D)"))
    try:
        row: Any = spark.range(1).select(Column(functions.vector_to_array(there, "float64"))).head()
    except PySparkException:
        return "refused"
    return str(list(row))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(sys.argv[1]), Path(name))
