"""What Spark on one machine and Spark on a cluster have in common."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.sql import SparkSession

from longhaul.core.errors import PermanentJobError
from longhaul.core.job_kinds import JobKind
from longhaul.runner.failures import may_be_jvm_death
from longhaul.runner.resources import Resources
from longhaul.runner.spark.progress import SparkWatch
from longhaul.runner.spark.sample import SparkSample
from longhaul.runner.spark.session import make_active, shuffle_partitions
from longhaul.runner.stopping import Stop

if TYPE_CHECKING:
    from longhaul.runner.loading import LoadedJob
    from longhaul.runner.running_job import RunningJob

# A broken connection to a dying JVM is seen before the cause of its death.
_CAUSE_WAIT_S: Final = 2.0


class BaseSpark(ABC):
    """`longhaul.runner.attempt.Spark`, with a session that is made in the background."""

    def __init__(
        self,
        resources: Resources,
        stop: Stop,
        *,
        watch_every_s: float,
        has_executors: bool = False,
    ) -> None:
        """`has_executors`: some of the work is on other machines."""
        self._resources = resources
        self._stop = stop
        self._watch_every_s = watch_every_s
        self._has_executors = has_executors
        self._session: Future[SparkSession] = Future()
        self._watch: SparkWatch | None = None

    @property
    def version(self) -> str:
        return pyspark.__version__

    def begin(self, kind: JobKind) -> None:
        if kind is JobKind.PLAIN:
            raise PermanentJobError(
                "job: it is plain Python (`def run(job)`), which runs on one machine: send it to"
                " another engine than emr-serverless"
            )

    def await_session(self, input_bytes: int = 0) -> None:
        """Wait for the session, make it this thread's, and size its shuffles for the inputs.

        May be called again, once the inputs' size is known.

        Raises:
            GatewayError: the JVM did not come up.
        """
        with self._cause_of_death_first():
            session = self._session.result()
            make_active(session)
            partitions = shuffle_partitions(self._resources.cores, input_bytes)
            session.conf.set("spark.sql.shuffle.partitions", partitions)

    def run(self, loaded: "LoadedJob", job: "RunningJob[Any]") -> None:
        session = self._session.result()
        # Not `spark.executorEnv`, which Spark logs and shows with its settings.
        session.sparkContext.environment.update(job.variables)
        with self._cause_of_death_first(), self._watching(session):
            loaded.run(session, job)
        # Its memory is free for the upload. Not after a failure: the JVM may be dying, and its own
        # end says why.
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End Spark. May be called again."""

    def sample(self) -> SparkSample:
        return self._watch.current() if self._watch else SparkSample()

    def _begin_session(self, make: Callable[[], SparkSession]) -> None:
        """Make the session in the background: a JVM takes seconds to boot, executors a minute."""

        def begin() -> None:
            try:
                self._session.set_result(make())
            except BaseException as error:  # noqa: BLE001 - raised where the session is waited for
                self._session.set_exception(error)

        threading.Thread(target=begin, name="spark-boot", daemon=True).start()

    @property
    def _has_session(self) -> bool:
        return self._session.done() and self._session.exception() is None

    @contextmanager
    def _cause_of_death_first(self) -> Iterator[None]:
        """Let the stop that a JVM's death requests come before the error that it causes.

        A JVM that was told to end stops Spark first, which fails the job in one way or another.
        """
        try:
            yield
        except Exception as error:
            going = may_be_jvm_death(error) or (
                self._watch is not None and self._watch.is_spark_gone()
            )
            if going and not self._stop.requested:
                self._stop.wait(_CAUSE_WAIT_S)
            raise

    @contextmanager
    def _watching(self, session: SparkSession) -> Iterator[None]:
        self._watch = SparkWatch(
            session.sparkContext, self._watch_every_s, has_executors=self._has_executors
        )
        self._watch.start()
        try:
            yield
        finally:
            self._watch.stop()
