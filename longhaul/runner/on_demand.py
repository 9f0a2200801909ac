"""Spark for the jobs that need it: without a JVM for those that do not."""

from typing import TYPE_CHECKING, Any, Final, cast

from longhaul.core.job_kinds import JobKind
from longhaul.job import PermanentJobError
from longhaul.runner.plain.python import run_plain
from longhaul.runner.spark.sample import SparkSample
from longhaul.runner.stopping import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from longhaul.runner.attempt import Spark
    from longhaul.runner.loading import LoadedJob
    from longhaul.runner.running_job import RunningJob

PLAIN: Final = "plain"
"""In the place of Spark's version, for what a job without it stores."""
NO_SPARK: Final = (
    "job: needs Spark, which is not installed here: pip install 'longhaul-jobs[spark]'"
)


class SparkOnDemand:
    """`longhaul.runner.attempt.Spark`, which is made when a job is known to need one."""

    def __init__(self, make: "Callable[[], Spark]", stop: Stop) -> None:
        self._make = make
        self._stop = stop
        self._spark: Spark | None = None

    @property
    def version(self) -> str:
        return self._spark.version if self._spark else PLAIN

    def begin(self, kind: JobKind) -> None:
        if kind is not JobKind.PLAIN and self._spark is None:
            try:
                self._spark = self._make()
            except ModuleNotFoundError as error:
                raise PermanentJobError(NO_SPARK) from error

    def await_session(self, input_bytes: int = 0) -> None:
        self.begin(JobKind.SPARK)
        if self._spark is not None:
            self._spark.await_session(input_bytes)

    def run(self, loaded: "LoadedJob", job: "RunningJob[Any]") -> None:
        if self._spark is not None:
            self._spark.run(loaded, job)
        else:
            run_plain(lambda: loaded.run(cast("SparkSession", None), job), self._stop)

    def sample(self) -> SparkSample:
        return self._spark.sample() if self._spark else SparkSample()
