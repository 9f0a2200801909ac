"""Records the time of its first line; with Spark."""

import time
from pathlib import Path

from pyspark.sql import SparkSession

from longhaul.job import Job
from longhaul.job import Params as BaseParams


class Params(BaseParams):
    stamp: str


def run(spark: SparkSession, job: Job[Params]) -> None:
    del spark
    Path(job.params.stamp).write_text(str(time.time()))
    (job.files() / "done").touch()
