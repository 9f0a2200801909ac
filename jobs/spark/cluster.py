"""Spark for a driver that spark-submit has started: the JVM is our parent and was there before us, and its executors are elsewhere."""

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from jobs.spark.session import build_session, cluster_options, make_active
from jobs.stopping import Stop
from jobs.task import Resources

_MIB: Final = 1024 * 1024
# Spark's own defaults, for who submits us without saying.
_CORES: Final = "1"
_EXECUTORS: Final = "1"
_MEMORY: Final = "1g"


def submitted_resources() -> Resources:
    """What the job was submitted with: the cores of all executors that it may have, and the memory of its driver."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - connects to the JVM; its properties are known before any context
    conf = SparkConf()
    executors = conf.get("spark.dynamicAllocation.maxExecutors", None) or conf.get(
        "spark.executor.instances", _EXECUTORS
    )
    memory = conf.get("spark.driver.memory", _MEMORY) or _MEMORY
    jvm = SparkContext._jvm  # noqa: SLF001 - as above
    if jvm is None:
        raise AssertionError("initialized without a JVM")
    return Resources(
        cores=int(executors or _EXECUTORS) * int(conf.get("spark.executor.cores", _CORES) or _CORES),
        memory_mib=int(jvm.org.apache.spark.network.util.JavaUtils.byteStringAsMb(memory)),
    )


class ClusterSpark:
    """`jobs.attempt.Spark`. The session is made in the background: executors take a minute to come."""

    def __init__(self, name: str, resources: Resources, scratch: Path, stop: Stop) -> None:
        """Begin to make the session, and return at once."""
        self._stop = stop
        self._session: Future[SparkSession] = Future()
        stop.on_request(self._cancel)
        arguments = (name, cluster_options(resources, scratch))
        threading.Thread(target=self._make_session, args=arguments, name="spark-boot", daemon=True).start()

    def session(self) -> SparkSession:
        """The session, once it is there: the active one of the calling thread."""
        spark = self._session.result()
        make_active(spark)
        return spark

    def close(self) -> None:
        """Give the executors back. May be called again."""
        if self._has_session and not self._stop.requested:
            self._session.result().stop()

    @property
    def _has_session(self) -> bool:
        return self._session.done() and self._session.exception() is None

    def _make_session(self, name: str, options: dict[str, str]) -> None:
        try:
            self._session.set_result(build_session(name, options))
        except BaseException as error:  # noqa: BLE001 - raised where the session is waited for
            self._session.set_exception(error)

    def _cancel(self) -> None:
        """Free the main thread, which waits for Spark: its jobs fail at once. It then ends the driver, and with it the executors."""
        if self._has_session:
            try:
                self._session.result().sparkContext.cancelAllJobs()
            except (Py4JError, OSError):  # the JVM is going: nobody waits for it any more
                return
