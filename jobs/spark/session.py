"""The one place that builds the Spark session of a task."""

from pathlib import Path

from pyspark.sql import SparkSession

from jobs.task import Resources

# The maximum of shuffle partitions; AQE merges what is small, so a few per core cost little and spread what is large.
_PARTITIONS_PER_CORE = 4


def session_options(resources: Resources, scratch: Path) -> dict[str, str]:
    """Spark's settings for one task on one machine."""
    return {
        "spark.master": f"local[{resources.cores}]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(max(2, resources.cores * _PARTITIONS_PER_CORE)),
        "spark.default.parallelism": str(resources.cores),
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
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "WARN",
    }


def build_session(name: str, resources: Resources, scratch: Path) -> SparkSession:
    """The session on the gateway that was attached last."""
    builder = SparkSession.Builder().appName(name)
    for option, value in session_options(resources, scratch).items():
        builder = builder.config(option, value)
    return builder.getOrCreate()
