"""Whether the processes of a job work at all.

A running task's counters stay 0 until it ends, so by Spark's stages a healthy long task looks dead,
and a job without Spark has none. A job works if a task ends, *or* the process tree uses CPU time or
I/O.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

# Measured: working jobs use 1-2 CPU-seconds a second, hung ones 0.00-0.03 and no I/O. A tenth of a
# core is well between the two; the runner's own reports stay below both limits.
BUSY_CPU_FRACTION = 0.10
BUSY_IO_BYTES_PER_S = 64 * 1024


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
