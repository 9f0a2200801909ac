"""Reads rows and writes them: the work is moving bytes."""

from pyspark.sql import SparkSession

from benchmarks import work
from longhaul.job import Job, Params


def run(spark: SparkSession, job: Job[Params]) -> None:
    job.write(work.clean(spark, job.input("rows")))
