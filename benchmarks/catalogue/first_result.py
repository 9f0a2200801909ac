"""Records the time of its first result."""

from pyspark.sql import SparkSession

from benchmarks import work
from longhaul.job import Job
from longhaul.job import Params as BaseParams


class Params(BaseParams):
    stamp: str


def run(spark: SparkSession, job: Job[Params]) -> None:
    work.first_result(spark, job.input("rows"), job.params.stamp)
    job.write(spark.range(1))
