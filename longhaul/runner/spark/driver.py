"""Spark for the driver of one attempt.

On one machine its JVM is ours: it is watched, and gone when the attempt is. On a cluster
spark-submit has started us from a JVM that was there before, and executors are on other machines.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from longhaul.core.errors import PermanentJobError
from longhaul.core.job_kinds import JobKind
from longhaul.runner.failures import may_be_jvm_death
from longhaul.runner.resources import Resources
from longhaul.runner.spark.gateway import OUT_OF_MEMORY_EXIT, Gateway
from longhaul.runner.spark.progress import SparkWatch
from longhaul.runner.spark.sample import SparkSample
from longhaul.runner.spark.session import (
    build_session,
    cluster_options,
    make_active,
    session_options,
    shuffle_partitions,
)
from longhaul.runner.stopping import Stop, StopReason

if TYPE_CHECKING:
    from longhaul.runner.loading import LoadedJob
    from longhaul.runner.running_job import RunningJob

# A broken connection to a dying JVM is seen before the cause of its death.
_CAUSE_WAIT_S: Final = 2.0
# A SIGTERM for the whole process group reaches the JVM as well. Its own stop comes first, if it
# comes within this time.
_OTHER_CAUSE_WAIT_S: Final = 0.5
_KILLED: Final = -9
# Spark's own defaults, for a submission without these settings.
_CORES: Final = "1"
_EXECUTORS: Final = "1"
_MEMORY: Final = "1g"


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


class LocalSpark(BaseSpark):
    """Spark on a gateway that may still be booting.

    A stop ends the JVM, and the JVM's death requests a stop.
    """

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        resources: Resources,
        scratch: Path,
        stop: Stop,
        *,
        watch_every_s: float,
    ) -> None:
        """Begin to make the session, and return at once."""
        super().__init__(resources, stop, watch_every_s=watch_every_s)
        self._gateway = gateway
        gateway.on_death(self._died)
        stop.on_request(gateway.stop)

        def attach_and_build() -> SparkSession:
            gateway.attach()
            return build_session(name, session_options(resources, scratch))

        self._begin_session(attach_and_build)

    def close(self) -> None:
        if self._has_session and self._gateway.is_alive and not self._stop.requested:
            # Otherwise Py4J logs an error for each Java object collected after the JVM exits.
            # PySpark has no public way.
            self._session.result().sparkContext._gateway.shutdown()  # type: ignore[union-attr]  # noqa: SLF001
        self._gateway.stop()

    def _died(self, code: int) -> None:
        if not self._stop.wait(_OTHER_CAUSE_WAIT_S):
            self._stop.request(*cause_of_death(code, self._gateway.last_words()))


def cause_of_death(code: int, last_words: str) -> tuple[StopReason, str]:
    """Why a JVM ended unasked.

    Args:
        code: its exit code; negative for a signal.
        last_words: the last line that it printed.
    """
    if code == OUT_OF_MEMORY_EXIT or "OutOfMemoryError" in last_words:
        return StopReason.OUT_OF_MEMORY, f"Spark's JVM ran out of memory: {last_words}"
    if code == _KILLED:
        return (
            StopReason.OUT_OF_MEMORY,
            "Spark's JVM was killed, as the kernel does when the task's memory is used up",
        )
    return StopReason.JVM_DIED, f"Spark's JVM ended with {code}: {last_words}"


class ClusterSpark(BaseSpark):
    def __init__(
        self,
        name: str,
        resources: Resources,
        scratch: Path,
        stop: Stop,
        *,
        watch_every_s: float,
    ) -> None:
        """Begin to make the session, and return at once."""
        super().__init__(resources, stop, watch_every_s=watch_every_s, has_executors=True)
        stop.on_request(self._cancel)
        options = cluster_options(resources, scratch)
        self._begin_session(lambda: build_session(name, options))

    def close(self) -> None:
        """Give the executors back. May be called again."""
        if self._has_session and not self._stop.requested:
            self._session.result().stop()

    def _cancel(self) -> None:
        """Free the main thread, which waits for Spark: its jobs fail at once.

        It then ends the driver, and with it the executors.
        """
        if self._has_session:
            try:
                self._session.result().sparkContext.cancelAllJobs()
            except (Py4JError, OSError):  # the JVM is going, and nothing waits for it
                return


def submitted_resources() -> Resources:
    """What the job was submitted with: the cores of all its executors, its driver's memory."""
    # Connects to the JVM, whose properties are known before any context.
    SparkContext._ensure_initialized()  # noqa: SLF001
    conf = SparkConf()
    executors = conf.get("spark.dynamicAllocation.maxExecutors", None) or conf.get(
        "spark.executor.instances", _EXECUTORS
    )
    memory = conf.get("spark.driver.memory", _MEMORY) or _MEMORY
    jvm = SparkContext._jvm  # noqa: SLF001 - as above
    if jvm is None:
        raise AssertionError("initialized without a JVM")
    return Resources(
        cores=int(executors or _EXECUTORS)
        * int(conf.get("spark.executor.cores", _CORES) or _CORES),
        memory_mib=int(jvm.org.apache.spark.network.util.JavaUtils.byteStringAsMb(memory)),
    )
