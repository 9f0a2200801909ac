"""Spark for a driver that spark-submit has started.

The JVM is our parent process and was there before us. Its executors are on other machines.
"""

from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext

from longhaul.runner.resources import Resources
from longhaul.runner.spark.base import BaseSpark
from longhaul.runner.spark.session import build_session, cluster_options
from longhaul.runner.stopping import Stop

_MIB: Final = 1024 * 1024
# Spark's own defaults, for a submission without these settings.
_CORES: Final = "1"
_EXECUTORS: Final = "1"
_MEMORY: Final = "1g"


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
