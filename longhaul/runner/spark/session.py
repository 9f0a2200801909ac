"""The one place that builds Spark sessions, for one machine and for a cluster."""

import logging
import sys
from math import ceil
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.types import UserDefinedType

from longhaul.runner.resources import Resources

# When the size of the input is unknown. AQE merges small partitions, so a few per core cost little
# and spread large data.
_PARTITIONS_PER_CORE: Final = 4
# Of staged input, for each partition of a shuffle. Compressed columns grow about fourfold in
# memory, and a task has a core's share of the heap, which is 1 GiB or more.
_PARTITION_BYTES: Final = 64 * 1024 * 1024
# With more, a shuffle's bookkeeping costs more than smaller partitions gain.
_MAX_PARTITIONS: Final = 4000
# What opening a file counts as, when files are packed into partitions. Spark's own 4 MiB is meant
# for a store that is far away: 10,000 staged files of 60 kB would be read by 312 tasks, which
# write as many files.
_OPENING_BYTES: Final = 256 * 1024
_TASK_TRIES: Final = 4  # Spark's own number
# A file's schema may name classes for its columns. The JVM loads those of MLlib alone.
_MLLIB_TYPES: Final = [
    f"org.apache.spark.{library}.linalg.{kind}UDT"
    for library in ("ml", "mllib")
    for kind in ("Vector", "Matrix")
]

logger = logging.getLogger(__name__)


def shuffle_partitions(cores: int, input_bytes: int = 0) -> int:
    """How many partitions a shuffle begins with; `input_bytes` is 0 if nothing was staged."""
    if not input_bytes:
        return cores * _PARTITIONS_PER_CORE
    rounds = ceil(
        input_bytes / _PARTITION_BYTES / cores
    )  # whole rounds: no core waits for the last few
    return max(cores, min(_MAX_PARTITIONS, rounds * cores))


def _common_options(cores: int, scratch: Path) -> dict[str, str]:
    return {
        "spark.sql.shuffle.partitions": str(shuffle_partitions(cores)),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.orc.compression.codec": "zstd",
        # Spark's INT96 is deprecated, and no table takes it.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Of a folder's name only the text is known: `zip=00501` is no number.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        # Dates mean the same wherever a task runs.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        # It needs PyArrow and Pandas, which the image does not have; every UDF would warn.
        "spark.sql.execution.pythonUDF.arrow.enabled": "false",
        # Cancelling a job interrupts its running tasks.
        "spark.job.interruptOnCancel": "true",
        # Jobs read their inputs and nothing else: SQL takes no path (parquet.`/etc/…`) for a table,
        # and replaces no ${env:…}.
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.variable.substitute": "false",
        # Since Spark 4.3; EMR's 4.0 loads every class that a schema names.
        "spark.sql.udt.allowCreatingUDTFromString": "false",
        "spark.sql.udt.allowedDynamicUDTClasses": ",".join(_MLLIB_TYPES),
        "spark.log.level": "WARN",
    }


def session_options(resources: Resources, scratch: Path) -> dict[str, str]:
    """Spark's settings for one task on one machine."""
    return {
        **_common_options(resources.cores, scratch),
        # A task that fails is tried again, as on a cluster.
        "spark.master": f"local[{resources.cores},{_TASK_TRIES}]",
        "spark.ui.enabled": "false",
        "spark.default.parallelism": str(resources.cores),
        "spark.sql.files.openCostInBytes": str(_OPENING_BYTES),
        # Spark makes a secret. Without one, whoever reaches loopback may send the driver objects of
        # Java, and so run code in it.
        "spark.authenticate": "true",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def cluster_options(resources: Resources, scratch: Path) -> dict[str, str]:
    """Spark's settings for a driver, beside those that it was submitted with.

    `resources.cores` counts the cores of all executors.
    """
    return {
        **_common_options(resources.cores, scratch),
        # Only whole tasks are moved to the output, so what a lost executor wrote is not in it.
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "1",
        "spark.executor.heartbeatInterval": "10s",
    }


def make_active(spark: SparkSession) -> None:
    """Make it the active session of this thread, as if it had been built here.

    The JVM keeps one for each thread, for `SparkSession.getActiveSession()`.
    """
    jvm_class = SparkSession._get_j_spark_session_class(spark._jvm)  # noqa: SLF001 - PySpark has no public way
    jvm_class.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - as above


def build_session(name: str, options: dict[str, str]) -> SparkSession:
    """The session on the gateway that was attached last."""
    UserDefinedType.fromJson = classmethod(_known_type)  # type: ignore[method-assign, assignment]
    builder = SparkSession.Builder().appName(name)
    for option, value in options.items():
        builder = builder.config(option, value)
    session = builder.getOrCreate()
    # Else a job that succeeded ends with a traceback: the JVM's end closes a connection that the
    # server reads. Whether the JVM may end is seen elsewhere.
    server = session.sparkContext._accumulatorServer  # noqa: SLF001 - PySpark has no public way
    server.handle_error = _log_what_is_no_end  # type: ignore[method-assign, assignment]
    return session


def _log_what_is_no_end(_request: object, _address: object) -> None:
    """For a server, in place of a traceback on stderr."""
    error = sys.exception()
    if not isinstance(error, EOFError | ConnectionError):
        logger.error("an accumulator was not updated", exc_info=error)


def _known_type(_cls: type[UserDefinedType], json: dict[str, Any]) -> UserDefinedType:
    """The type of a column, from its JSON; replaces PySpark's own `fromJson`.

    That imports the module that the JSON names, and in EMR's version also unpickles a class.

    Raises:
        TypeError: it is no type of a module that the job has imported.
    """
    module, _, name = str(json["pyClass"]).rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    if not (isinstance(found, type) and issubclass(found, UserDefinedType)):
        raise TypeError(f"a column has the type {module}.{name}: import it first, if you trust it")
    return found()
