"""A JVM that outlives one job: the next one in a warm Lambda environment finds it running.

The function's handler (`longhaul.engines.aws_lambda.runner`) is its parent, and starts a Python
process for each job: nothing of a job is left in Python. What a job left in the JVM is undone here
when the job has ended well. Where that is in doubt the JVM is killed, and the next job gets a new
one.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from longhaul.runner.resources import Resources
from longhaul.runner.spark.gateway import (
    CONNECTION,
    ENDED,
    TAIL_LINES,
    GatewayError,
    connect,
    log_output,
)
from longhaul.runner.spark.local import LocalSpark
from longhaul.runner.spark.session import build_session
from longhaul.runner.stopping import Stop

# A frozen JVM must not take its own executor for lost when it goes on.
_FROZEN: Final = {"spark.network.timeout": "365d"}
_WAREHOUSE: Final = "spark.sql.warehouse.dir="
_STREAM: Final = "stream execution thread"  # how Spark names the threads of streams
_POLL_S: Final = 0.05
_CODE_WAIT_S: Final = 5.0
_UNKNOWN_CODE: Final = -1

logger = logging.getLogger(__name__)


class KeptGateway:
    """`longhaul.runner.spark.gateway.Jvm`, for a process that is not its parent."""

    def __init__(self, folder: Path, pid: int, output: int, *, is_used: bool) -> None:
        """Name a JVM that runs.

        Args:
            folder: its own.
            pid: its process.
            output: the file descriptor to read its output from.
            is_used: a job has run in it.
        """
        self.is_used = is_used
        self._folder = folder
        self._process = psutil.Process(pid)
        self._output = os.fdopen(output, errors="replace")
        self._stopping = threading.Event()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def is_alive(self) -> bool:
        return self._process.is_running()

    def attach(self, timeout_s: float = 120) -> None:
        """As `Gateway.attach`."""
        read = threading.Thread(
            target=log_output, args=(self._output, self._tail), name="jvm-output", daemon=True
        )
        read.start()

        def check() -> None:
            if not self.is_alive:
                raise GatewayError(f"the JVM ended: {self.last_words()}")

        connect(self._folder / CONNECTION, timeout_s, check)

    def on_death(self, callback: Callable[[int], None]) -> None:
        def watch() -> None:
            self._process.wait()
            code = self._await_exit_code()
            if not self._stopping.is_set():
                callback(code)

        threading.Thread(target=watch, name="jvm-watch", daemon=True).start()

    def stop(self) -> None:
        """Kill it, with what it has started, and wait until its parent knows.

        A killed JVM takes a while to end, and its parent would keep it for the next job.
        """
        self._stopping.set()
        for each in (*self._children(), self._process):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._await_exit_code()

    def release(self) -> None:
        """Let it run on. Its end concerns this process no more."""
        self._stopping.set()

    def helpers(self) -> str:
        """Which processes it has started: Python workers have imported what a job needed."""
        return ", ".join(each.name() for each in self._process.children(recursive=True))

    def last_words(self) -> str:
        return self._tail[-1] if self._tail else "it said nothing"

    def _children(self) -> list[psutil.Process]:
        try:
            return self._process.children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _await_exit_code(self) -> int:
        """The code that its parent, which alone is told, writes down."""
        file, deadline = self._folder / ENDED, time.monotonic() + _CODE_WAIT_S
        while time.monotonic() < deadline:
            if file.exists() and (text := file.read_text()):
                return int(text)
            time.sleep(_POLL_S)
        return _UNKNOWN_CODE


class KeptSpark(LocalSpark):
    """Spark in a JVM that may have run a job before, and may run another."""

    def __init__(
        self,
        gateway: KeptGateway,
        name: str,
        resources: Resources,
        scratch: Path,
        stop: Stop,
        *,
        watch_every_s: float,
    ) -> None:
        self._kept = gateway
        self._before = ""
        self._closed = False
        super().__init__(gateway, name, resources, scratch, stop, watch_every_s=watch_every_s)

    def close(self) -> None:
        """Undo what the job left in the JVM; kill the JVM where that is in doubt."""
        if self._closed:
            return
        self._closed = True
        gateway = self._kept
        if self._stop.requested or not self._has_session:
            gateway.stop()
            return
        try:
            left = gateway.helpers() or undo(self._session.result().sparkContext, self._before)
        except Exception as error:  # noqa: BLE001 - of any kind: a new JVM is always right
            left = type(error).__name__
        if left:
            logger.info("the JVM is not used again: %s", left)
            gateway.stop()
        else:
            gateway.release()

    def _build(self, name: str, options: dict[str, str]) -> SparkSession:
        context = _context({**options, **_FROZEN, "spark.app.name": name}, self._kept.is_used)
        self._before = _settings(context)
        return build_session(name, options)


def _context(options: dict[str, str], is_used: bool) -> SparkContext:  # noqa: FBT001 - named above
    """The JVM's context, for this process; a new one in a new JVM."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - PySpark has no public way
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - as above
    conf, java = SparkConf(), None
    conf.setAll(list(options.items()))
    if is_used:
        spark = jvm.org.apache.spark
        java = spark.api.java.JavaSparkContext(spark.SparkContext.getOrCreate())
        # Not `newSession`, which shares tables, global views and the cache with the old one.
        spark.sql.classic.SparkSession.clearDefaultSession()
        spark.sql.classic.SparkSession.clearActiveSession()
    return SparkContext(conf=conf, jsc=java)


def undo(context: SparkContext, before: str) -> str:
    """Make the context as new. Returns what cannot be undone, or an empty text."""
    java, jvm = context._jsc, SparkContext._jvm  # noqa: SLF001 - as above
    if java is None or jvm is None:
        return "there is no context"
    scala: Any = java.sc()
    scala.cancelAllJobs()
    for rdd in list(java.getPersistentRDDs().values()):
        rdd.unpersist(False)
    if scala.listFiles().nonEmpty() or scala.listJars().nonEmpty():
        return "files or jars were added"
    if scala.listArchives().nonEmpty() or scala.getCheckpointDir().isDefined():
        return "archives were added, or a folder of checkpoints was set"
    if _streams(jvm):
        return "a stream is running"
    hadoop = scala.hadoopConfiguration()
    hadoop.clear()
    hadoop.reloadConfiguration()
    util: Any = jvm.org.apache.spark.deploy.SparkHadoopUtil
    hadoop.addResource(util.get().newConfiguration(scala.conf()))
    context.setLogLevel(str(context.getConf().get("spark.log.level", "WARN")))
    return "" if _settings(context) == before else "settings of the JVM were changed"


def _streams(jvm: Any) -> bool:  # noqa: ANN401 - the JVM's classes
    """Whether a stream runs, in any session: it would go on beside the next job."""
    threads = jvm.java.lang.Thread.getAllStackTraces().keySet()
    return any(each.getName().startswith(_STREAM) for each in threads)


def _settings(context: SparkContext) -> str:
    """What a job could change for all sessions: Spark's own settings, and what Java has but once.

    Those are its properties, time zone, languages, user, and levels of logs.
    """
    java, jvm = context._jsc, SparkContext._jvm  # noqa: SLF001 - as above
    if java is None or jvm is None:
        raise RuntimeError("there is no context")
    lines = str(java.sc().conf().toDebugString()).splitlines()
    util, user = jvm.java.util, jvm.org.apache.hadoop.security.UserGroupInformation
    locale: Any = util.Locale
    once: list[Any] = [
        util.TimeZone.getDefault(),
        *(locale.getDefault(each) for each in locale.Category.values()),
        user.getCurrentUser(),
        user.getLoginUser(),
    ]
    loggers: Any = jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration()
    levels = sorted(f"{each.getName()}={each.getLevel()}" for each in loggers.getLoggers().values())
    # Last: a time zone that is asked for becomes a property.
    properties: Any = util.TreeMap(jvm.java.lang.System.getProperties())
    return "\n".join(
        [
            # Spark sets the warehouse for each session.
            *(each for each in lines if not each.startswith(_WAREHOUSE)),
            *(str(each.toString()) for each in once),
            *levels,
            str(properties.toString()),
        ]
    )
