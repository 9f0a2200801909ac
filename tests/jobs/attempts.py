"""What the tests of an attempt share besides fixtures."""

from typing import Any

from pyspark.sql import SparkSession

from jobs.api import Job

OUTPUT = "clean/2013-01/"


def write_one_row(spark: SparkSession, job: Job[Any]) -> None:
    job.write(spark.range(1))


class NoSpark:
    def session(self) -> Any:
        raise AssertionError("Spark is not needed")

    def close(self) -> None:
        """There is none."""
