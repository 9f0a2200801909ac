"""How far Spark is, and whether its processes work at all.

A running task's counters stay 0 until it ends, so by its stages a healthy long task looks dead.
A job works if a task ends, *or* the process tree uses CPU time or I/O.
"""

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkContext

# Measured: working jobs use 1-2 CPU-seconds a second, hung ones 0.00-0.03 and no I/O. A tenth of a
# core is well between the two; the runner's own reports stay below both limits.
BUSY_CPU_FRACTION = 0.10
BUSY_IO_BYTES_PER_S = 64 * 1024
# A sample takes milliseconds.
_LAST_SAMPLE_S = 2

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StageCount:
    id: int
    done: int
    total: int


@dataclass(frozen=True)
class SparkSample:
    """How far Spark is.

    `done` and `total` count the tasks known so far, `active` has the stages that run now. Rows are
    those of ended tasks: a running task reports its rows at its end.
    """

    done: int = 0
    total: int = 0
    active: tuple[StageCount, ...] = ()
    rows_read: int = 0
    rows_written: int = 0
    runs_elsewhere: bool = False
    """Tasks run on executors, whose CPU time cannot be seen from here.

    Measured: Spark's heartbeats showed nothing of a Python task that worked for half a minute.
    """
    waits_for_executors: bool = False
    """There is work, and no executor for it: the platform has not provided one yet."""


@dataclass
class SparkWatch:
    """Samples Spark's status in a thread of its own: a call into a stuck JVM does not return."""

    context: SparkContext
    period_s: float
    has_executors: bool = False
    latest: SparkSample = SparkSample()
    _seen: dict[int, StageCount] = field(default_factory=dict)
    _rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)

    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="spark-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling. A sample on its way is waited for, unless the JVM is stuck."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_LAST_SAMPLE_S)

    def is_spark_gone(self) -> bool:
        """Whether Spark has stopped, or its JVM is gone. Blocks if the JVM is stuck."""
        try:
            java = self.context._jsc  # noqa: SLF001 - PySpark does not say
            # None after `spark.stop()`, which a job may call before its own error gets here.
            return java is None or bool(java.sc().isStopped())
        except (Py4JError, OSError):
            return True

    def _run(self) -> None:
        while not self._stopped.wait(self.period_s):
            try:
                self.latest = self._sample()
            except (Py4JError, OSError):  # the JVM is going; the gateway notices its end
                logger.debug("no sample of Spark's status")
                return
            except AttributeError:
                if self.context._jsc is None:  # noqa: SLF001 - as above
                    return
                raise

    def _sample(self) -> SparkSample:
        tracker = self.context.statusTracker()
        active: list[StageCount] = []
        running = 0
        for stage_id in tracker.getActiveStageIds():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                active.append(StageCount(stage_id, stage.numCompletedTasks, stage.numTasks))
                running += stage.numActiveTasks
        ids = {stage.id for stage in active}
        # Also for stages that ended since the last sample: their last rows came at their end.
        for stage_id in ids | {stage.id for stage in self.latest.active}:
            self._rows[stage_id] = self._rows_of(stage_id)
        # A stage that is no longer active has done all its tasks.
        self._seen = {
            id_: stage if id_ in ids else StageCount(id_, stage.total, stage.total)
            for id_, stage in self._seen.items()
        } | {stage.id: stage for stage in active}
        return SparkSample(
            done=sum(stage.done for stage in self._seen.values()),
            total=sum(stage.total for stage in self._seen.values()),
            active=tuple(active),
            rows_read=sum(read for read, _ in self._rows.values()),
            rows_written=sum(written for _, written in self._rows.values()),
            runs_elsewhere=self.has_executors and running > 0,
            waits_for_executors=bool(active) and self.has_executors and not self._executors(),
        )

    def _executors(self) -> int:
        """How many have registered. The driver has a block manager, too."""
        return int(self.context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # noqa: SLF001 - as below

    def _rows_of(self, stage_id: int) -> tuple[int, int]:
        """Rows that the ended tasks of a stage have read and written, without shuffles."""
        stage = self.context._jsc.sc().statusStore().lastStageAttempt(stage_id)  # noqa: SLF001 - the tracker has no metrics
        return int(stage.inputRecords()), int(stage.outputRecords())


@dataclass(frozen=True)
class Effort:
    """CPU seconds and I/O bytes of the process tree within so many seconds."""

    seconds: float
    cpu_s: float
    io_bytes: int

    @property
    def is_work(self) -> bool:
        return (
            self.cpu_s >= BUSY_CPU_FRACTION * self.seconds
            or self.io_bytes >= BUSY_IO_BYTES_PER_S * self.seconds
        ) and self.seconds > 0


class ProcessTree:
    """Measures what a process and its descendants do between two calls."""

    def __init__(self, root: psutil.Process | None = None) -> None:
        """`root` is this process, unless given."""
        self._root = root or psutil.Process()
        self._before: dict[_ProcessId, tuple[float, int]] = {}
        self._at = time.monotonic()
        self.effort()

    def effort(self) -> Effort:
        """What was done since the last call. A process that ended in between counts as 0."""
        now = time.monotonic()
        # Sample this process around the search, so that psutil's walk over /proc is not counted as
        # the job's work.
        usage = _usage([self._root])
        usage |= _usage(self._root.children(recursive=True))
        deltas = [
            (cpu - self._before.get(id_, (0.0, 0))[0], io - self._before.get(id_, (0.0, 0))[1])
            for id_, (cpu, io) in usage.items()
        ]
        effort = Effort(now - self._at, sum(cpu for cpu, _ in deltas), sum(io for _, io in deltas))
        self._before, self._at = usage | _usage([self._root]), now
        return effort


_ProcessId = tuple[int, float]
"""Process id and time of start: ids are used again."""


def _usage(processes: Iterable[psutil.Process]) -> dict[_ProcessId, tuple[float, int]]:
    """CPU seconds and I/O bytes of each so far, without processes that are gone."""
    usage = {}
    for process in processes:
        try:
            cpu = process.cpu_times()
            usage[process.pid, process.create_time()] = (cpu.user + cpu.system, _io_bytes(process))
        except psutil.NoSuchProcess:
            continue
    return usage


def _io_bytes(process: psutil.Process) -> int:
    """Bytes read and written, page cache included; 0 where the system does not say."""
    counters = getattr(
        process, "io_counters", None
    )  # not on every system that runs the local profile
    if counters is None:
        return 0
    try:
        io = counters()
    except psutil.AccessDenied:
        return 0
    return int(io.read_chars + io.write_chars)
