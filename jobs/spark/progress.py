"""How far Spark is, and whether the process tree works at all.

A running task's counters stay 0 until it ends, so stages alone make a healthy long task look dead. What tells work from a hang is a task that ends, *or* CPU
time or I/O of the process tree.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkContext

# Measured: working 1-2 CPU-seconds a second, hung 0.00-0.03 and no I/O. A tenth of a core is well between; the runner's own reports stay below both.
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
    """Tasks done and known of so far, the stages that are active now, and the rows that ended tasks have read and written (a running task's come at its end)."""

    done: int = 0
    total: int = 0
    active: tuple[StageCount, ...] = ()
    rows_read: int = 0
    rows_written: int = 0
    runs_elsewhere: bool = False
    """Tasks run on executors, whose CPU nobody here can see. Measured: of a task in Python that worked for half a minute, Spark's heartbeats showed nothing."""


@dataclass(frozen=True)
class Vantage:
    """From where the work is watched: the processes that can be seen, and whether executors are elsewhere."""

    tree: "Callable[[], ProcessTree]" = field(default_factory=lambda: ProcessTree)
    has_executors: bool = False


@dataclass
class SparkWatch:
    """Samples Spark's status in a thread of its own, because a call into a stuck JVM does not come back."""

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
        """No sample is on its way after this, unless the JVM is stuck."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_LAST_SAMPLE_S)

    def is_spark_gone(self) -> bool:
        """Whether Spark has stopped, or answers no more. Not to be asked of a JVM that may be stuck."""
        try:
            return bool(self.context._jsc.sc().isStopped())  # noqa: SLF001 - PySpark does not say
        except (Py4JError, OSError):
            return True

    def _run(self) -> None:
        while not self._stopped.wait(self.period_s):
            try:
                self.latest = self._sample()
            except (Py4JError, OSError):  # the JVM is going; its end is noticed elsewhere
                logger.debug("no sample of Spark's status")
                return

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
        # Once more for those that have ended since the sample before: their last rows came with their end.
        for stage_id in ids | {stage.id for stage in self.latest.active}:
            self._rows[stage_id] = self._rows_of(stage_id)
        # A stage that is not active any more has done what it had to.
        self._seen = {
            id_: stage if id_ in ids else StageCount(id_, stage.total, stage.total) for id_, stage in self._seen.items()
        } | {stage.id: stage for stage in active}
        return SparkSample(
            done=sum(stage.done for stage in self._seen.values()),
            total=sum(stage.total for stage in self._seen.values()),
            active=tuple(active),
            rows_read=sum(read for read, _ in self._rows.values()),
            rows_written=sum(written for _, written in self._rows.values()),
            runs_elsewhere=self.has_executors and running > 0,
        )

    def _rows_of(self, stage_id: int) -> tuple[int, int]:
        """Rows read and written by the tasks of a stage that have ended; shuffles count as neither."""
        stage = self.context._jsc.sc().statusStore().lastStageAttempt(stage_id)  # noqa: SLF001 - the tracker has no metrics
        return int(stage.inputRecords()), int(stage.outputRecords())


@dataclass(frozen=True)
class Effort:
    """CPU seconds and I/O bytes of the process tree since the sample before, and the time between the two."""

    seconds: float
    cpu_s: float
    io_bytes: int

    @property
    def is_work(self) -> bool:
        return (
            self.cpu_s >= BUSY_CPU_FRACTION * self.seconds or self.io_bytes >= BUSY_IO_BYTES_PER_S * self.seconds
        ) and self.seconds > 0


class ProcessTree:
    """Measures what this process and all that it started did between two calls."""

    def __init__(self, root: psutil.Process | None = None) -> None:
        """`root` is this process, unless another one started it for the same work."""
        self._root = root or psutil.Process()
        self._before: dict[_ProcessId, tuple[float, int]] = {}
        self._at = time.monotonic()
        self.effort()

    def effort(self) -> Effort:
        """What was done since the last call. A process that ended in between counts for nothing, never for less."""
        now = time.monotonic()
        # Ourselves before the search and again after it: psutil reads a file of every process of the machine, and that is no work of the job's.
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
"""Process id and start: ids come again."""


def _usage(processes: Iterable[psutil.Process]) -> dict[_ProcessId, tuple[float, int]]:
    """CPU seconds and I/O bytes of each so far, without those that are gone."""
    usage = {}
    for process in processes:
        try:
            cpu = process.cpu_times()
            usage[process.pid, process.create_time()] = (cpu.user + cpu.system, _io_bytes(process))
        except psutil.NoSuchProcess:
            continue
    return usage


def _io_bytes(process: psutil.Process) -> int:
    """Bytes read and written, page cache included; 0 where the system does not tell. CPU time then has to do alone."""
    counters = getattr(process, "io_counters", None)  # not on every system that runs the local profile
    if counters is None:
        return 0
    try:
        io = counters()
    except psutil.AccessDenied:
        return 0
    return int(io.read_chars + io.write_chars)
