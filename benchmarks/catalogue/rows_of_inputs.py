"""The work of `rows_in_parts`, and nothing stored: each input is a dataset of the output."""

from pyspark.sql import SparkSession

from benchmarks import work
from longhaul.job import Job, Params


def run(spark: SparkSession, job: Job[Params]) -> None:
    for name in sorted(job.inputs):
        job.write(work.clean(spark, job.input(name)), name)
