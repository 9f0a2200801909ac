"""The work of `rows_of_inputs`, which begins once all inputs are there."""

from pyspark.sql import SparkSession

from benchmarks.catalogue import rows_of_inputs
from longhaul.job import Job, Params


def run(spark: SparkSession, job: Job[Params]) -> None:
    for name in job.inputs:
        job.input(name)
    rows_of_inputs.run(spark, job)
