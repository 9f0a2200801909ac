"""The one place that builds Spark sessions: of a task on one machine, and of a driver with a cluster."""

from math import ceil
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from jobs.task import Resources

# While the size of the input is not known. AQE merges what is small, so a few per core cost little and spread what is large.
_PARTITIONS_PER_CORE: Final = 4
# Of staged input for each partition of a shuffle. Compressed columns grow about fourfold in memory, and a task has a core's share of the heap, 1 GiB and more.
_PARTITION_BYTES: Final = 64 * 1024 * 1024
# Beyond this the bookkeeping of a shuffle costs more than smaller partitions gain.
_MAX_PARTITIONS: Final = 4000


def shuffle_partitions(cores: int, input_bytes: int = 0) -> int:
    """How many partitions a shuffle begins with; `input_bytes` is 0 when nothing was staged, which says nothing of what the job makes."""
    if not input_bytes:
        return cores * _PARTITIONS_PER_CORE
    rounds = ceil(input_bytes / _PARTITION_BYTES / cores)  # whole rounds: no core waits for the last few
    return max(cores, min(_MAX_PARTITIONS, rounds * cores))


def _common_options(cores: int, scratch: Path) -> dict[str, str]:
    return {
        "spark.sql.shuffle.partitions": str(shuffle_partitions(cores)),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.orc.compression.codec": "zstd",
        # Dates mean the same wherever a task runs.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        # Needs PyArrow and Pandas, which the image does not carry; on, every UDF warns.
        "spark.sql.execution.pythonUDF.arrow.enabled": "false",
        # Cancelling a job interrupts its running tasks.
        "spark.job.interruptOnCancel": "true",
        # A path in SQL (parquet.`/etc/…`) is no table, and ${env:…} no text: jobs read their inputs and nothing else.
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.variable.substitute": "false",
        "spark.log.level": "WARN",
    }


def session_options(resources: Resources, scratch: Path) -> dict[str, str]:
    """Spark's settings for one task on one machine."""
    return {
        **_common_options(resources.cores, scratch),
        "spark.master": f"local[{resources.cores}]",
        "spark.ui.enabled": "false",
        "spark.default.parallelism": str(resources.cores),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def cluster_options(resources: Resources, scratch: Path) -> dict[str, str]:
    """Spark's settings for a driver, beside those that it was submitted with. `resources.cores` are all that the executors may have."""
    return {
        **_common_options(resources.cores, scratch),
        # What a lost executor has written is not in the output: only whole tasks are moved there.
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "1",
        # Signs of life of tasks that take long: `jobs.spark.progress`.
        "spark.executor.heartbeatInterval": "10s",
    }


def make_active(spark: SparkSession) -> None:
    """Make it what `SparkSession.getActiveSession()` answers in this thread, as if it had been built here: the JVM keeps one for each thread."""
    jvm_class = SparkSession._get_j_spark_session_class(spark._jvm)  # noqa: SLF001 - PySpark has no public way
    jvm_class.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - as above


def build_session(name: str, options: dict[str, str]) -> SparkSession:
    """The session on the gateway that was attached last."""
    builder = SparkSession.Builder().appName(name)
    for option, value in options.items():
        builder = builder.config(option, value)
    return builder.getOrCreate()
