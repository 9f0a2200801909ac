"""The work of `clean_rows` in parts, one for each input."""

from pyspark.sql import SparkSession

from benchmarks import work
from longhaul.job import Job, Params


def run(spark: SparkSession, job: Job[Params]) -> None:
    for name in sorted(job.inputs):
        job.write(work.clean(spark, job.input(name)), part=name)
