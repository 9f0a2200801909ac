"""Whether an attempt lives, and how far it is: what its lease row gets to know.

The row says in return whether the attempt has to stop.

A running task's counters stay 0 until it ends, so by Spark's stages a healthy long task looks dead,
and a job without Spark has none. A job works if a task ends, *or* the process tree uses CPU time or
I/O.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import psutil
from botocore.exceptions import BotoCoreError, ClientError

from longhaul.core import transitions
from longhaul.core.beat import longest_report_wait_s, report_wait_s
from longhaul.core.errors import LeaseChangedError
from longhaul.core.lease import AttemptId
from longhaul.core.ports import Background, Clock, Leases
from longhaul.core.settings import LeaseSettings
from longhaul.runner.masking import NO_MASK, Mask
from longhaul.runner.spark.sample import SparkSample
from longhaul.runner.stopping import Stop, StopReason

logger = logging.getLogger(__name__)

_NOTE_CHARS = 120
_MAX_STAGES = 4  # of those active at once, so that the row stays below 1 KiB
# A report on its way may be tried twice, for some seconds each time.
_LAST_REPORT_S = 10


# Measured: working jobs use 1-2 CPU-seconds a second, hung ones 0.00-0.03 and no I/O. A tenth of a
# core is well between the two; the runner's own reports stay below both limits.
BUSY_CPU_FRACTION = 0.10
BUSY_IO_BYTES_PER_S = 64 * 1024


@dataclass(frozen=True)
class Effort:
    """CPU seconds and I/O bytes of the process tree within this number of seconds."""

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
    # Not on every system that runs the local profile.
    if not hasattr(process, "io_counters"):
        return 0
    try:
        io = process.io_counters()
    except psutil.AccessDenied:
        return 0
    return int(io.read_chars + io.write_chars)


class Phase(StrEnum):
    STAGING = "staging"
    RUNNING = "running"
    PUBLISHING = "publishing"
    WAITING = "waiting"  # for executors, in the midst of running


# Which part of the whole each phase is.
_SPAN: Final = {Phase.STAGING: (0.0, 0.1), Phase.RUNNING: (0.1, 0.9), Phase.PUBLISHING: (0.9, 1.0)}


@dataclass
class Progress:
    """How far the attempt is.

    The thread that works writes it, and the one that reports reads it. Each field is replaced
    whole.
    """

    phase: Phase = Phase.STAGING
    note: str = ""
    done: int = 0  # bytes of the inputs while staging, of the output while publishing
    total: int = 0
    said: tuple[float, float] | None = None  # as the job counts: done, and total
    quiet_until: tuple[datetime, ...] = ()  # the ends of waits, until which silence is no stall
    # What the attempt took over from those before it, or why nothing, in words.
    taken_over: str = ""
    mask: Mask = NO_MASK  # cuts the stage's secrets out of what the job says
    steps: int = 0  # two looks that differ have progress between them
    _fraction: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_quiet(self, now: datetime) -> bool:
        """Whether silence is no stall now."""
        return any(now <= each for each in self.quiet_until)

    def enter(self, phase: Phase, total: int = 0) -> None:
        """Begin a phase, in which this number of bytes is to come or to go."""
        with self._lock:
            self.phase, self.done, self.total = phase, 0, total
            self.steps += 1

    def advance(self, amount: int) -> None:
        """Count bytes that came or went; threads may do so at once."""
        with self._lock:
            self.done += amount
            self.steps += 1

    def say(self, note: str, *, done: float | None = None, total: float | None = None) -> None:
        """Note what the job does, and how much of it is done.

        Raises:
            ValueError: only one of the two is given, or they are no part of a whole.
        """
        if (done, total) != (None, None):
            if done is None or total is None or not 0 <= done <= total or total <= 0:
                raise ValueError(
                    f"progress: done={done!r} of total={total!r} is no part of a whole: give both"
                )
            self.said = done, total
        self.remark(note)
        with self._lock:
            self.steps += 1

    def remark(self, note: str) -> None:
        """Say something that is no progress: a job that hangs still stalls."""
        note = self.mask(note)  # before it is cut: half a value would not be found
        self.note = note if len(note) <= _NOTE_CHARS else f"{note[: _NOTE_CHARS - 1]}…"

    @contextmanager
    def quiet(self, until: datetime) -> Iterator[None]:
        """A wait, which is no stall up to this time. It says nothing: it is no progress either."""
        with self._lock:
            self.quiet_until = (*self.quiet_until, until)
        try:
            yield
        finally:
            with self._lock:
                at = self.quiet_until.index(until)
                self.quiet_until = (*self.quiet_until[:at], *self.quiet_until[at + 1 :])

    def fraction(self, spark: SparkSample) -> float:
        """How much of the whole is done, between 0 and 1.

        It never decreases, even when Spark learns of new stages.
        """
        phase = self.phase
        start, end = _SPAN[phase]
        # The job knows how much there is, and Spark only what it has begun.
        of_job = self.said or (spark.done, spark.total)
        done, total = of_job if phase is Phase.RUNNING else (self.done, self.total)
        within = min(done / total, 1.0) if total else 0.0
        self._fraction = max(self._fraction, round(start + (end - start) * within, 3))
        return self._fraction


def stop_as_refused(stop: Stop, error: LeaseChangedError, attempt: AttemptId) -> None:
    """Request the stop that a refused write of the attempt's row means."""
    row = error.current
    if row is not None and row.owns(attempt) and row.cancel_requested_at:
        stop.request(StopReason.CANCELLED, "cancelled on request")
    else:
        stop.request(StopReason.SUPERSEDED, "this attempt does not own the job any more")


@dataclass(frozen=True)
class ReporterLook:
    """What a look at the attempt found."""

    at: datetime
    advanced_at: datetime
    news: dict[str, Any]  # what a person wants to see at once
    load: dict[str, Any]  # what differs at each look


@dataclass
class Reporter:
    """Writes progress under the attempt's token.

    It looks every `progress_period_s`, so that the time of the last advance is exact. What it sees
    is written at once if the phase is another, or the work goes on after a rest; if there is
    anything new, as often as the attempt's age asks for; and in any case before silence could be
    taken for a stall.
    """

    leases: Leases
    attempt: AttemptId
    clock: Clock
    background: Background
    stop: Stop
    progress: Progress
    timing: LeaseSettings
    stall_timeout_s: int
    sample: Callable[[], SparkSample]
    effort: Callable[[], Effort]
    _seen: object = None
    _advanced_at: datetime | None = None
    _started_at: datetime | None = None
    _written: ReporterLook | None = None
    _written_at: datetime | None = None

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report while the block lasts.

        The end waits for a write on its way, so that it does not come after what follows.
        """
        self._started_at = self._advanced_at = self._written_at = self.clock.now()
        timer = self.background.every(
            self.timing.progress_period_s, lambda: self._safely(self._report_if_due)
        )
        try:
            yield
        finally:
            timer.cancel(wait_s=self.timing.progress_period_s + _LAST_REPORT_S)

    def report_take_over(self) -> None:
        """Write what was taken over, if the attempt was too short for a report of it."""
        written = self._written.news if self._written else {}
        if self.progress.taken_over != written.get("taken_over", ""):
            self._safely(self.report)

    def _safely(self, do: Callable[[], None]) -> None:
        if self.stop.requested:
            return
        try:
            do()
        except Exception as error:
            # Otherwise the job would be called stalled, and nothing would say why.
            logger.exception("the progress thread failed")
            self.stop.request(
                StopReason.UNREPORTABLE, f"the progress thread failed: {type(error).__name__}"
            )

    def report(self) -> None:
        """Write once, and stop if the row says so."""
        self._write(self._look())

    def _report_if_due(self) -> None:
        look = self._look()
        if self._is_due(look):
            self._write(look)

    def _is_due(self, look: ReporterLook) -> bool:
        before, written_at = self._written, self._written_at
        if before is None or written_at is None:
            return True
        longest_s = longest_report_wait_s(self.timing, self.stall_timeout_s)
        rest_s = (look.advanced_at - before.advanced_at).total_seconds()
        # The row would still say that nothing advances: soon it would be a stall.
        if look.news["phase"] != before.news["phase"] or rest_s > longest_s:
            return True
        wait_s = report_wait_s(
            (look.at - (self._started_at or look.at)).total_seconds(),
            self.timing,
            self.stall_timeout_s,
            has_news=look.news != before.news,
        )
        # Negative after the clock was set back: nothing would be due for as long.
        return not 0 <= (look.at - written_at).total_seconds() < wait_s

    def _look(self) -> ReporterLook:
        now, spark, effort = self.clock.now(), self.sample(), self.effort()
        seen = (self.progress.steps, spark)
        # A task on an executor counts as work: Spark itself notices when the executor dies, and the
        # job's timeout ends a task that hangs.
        is_work = effort.is_work or spark.runs_elsewhere
        is_alive = is_work or self.progress.is_quiet(now)
        if seen != self._seen or is_alive or self._advanced_at is None:
            self._advanced_at = now
        # After the clock was set back a stall would be noticed later by as much.
        self._advanced_at = min(self._advanced_at, now)
        self._seen = seen
        is_waiting = self.progress.phase is Phase.RUNNING and spark.waits_for_executors
        news: dict[str, Any] = {
            "phase": (Phase.WAITING if is_waiting else self.progress.phase).value,
            "fraction": self.progress.fraction(spark),
            "note": self.progress.note,
            "tasks": [spark.done, spark.total],
            "rows": [spark.rows_read, spark.rows_written],
            "stages": [[stage.id, stage.done, stage.total] for stage in spark.active[:_MAX_STAGES]],
        }
        if self.progress.taken_over:
            news["taken_over"] = self.progress.taken_over
        load = {
            "cpu_s_per_s": round(effort.cpu_s / effort.seconds, 2) if effort.seconds else 0,
            "io_bytes_per_s": round(effort.io_bytes / effort.seconds) if effort.seconds else 0,
        }
        return ReporterLook(now, self._advanced_at, news, load)

    def _write(self, look: ReporterLook) -> None:
        try:
            lease = self.leases.report(
                transitions.report_progress(
                    self.attempt, look.news | look.load, look.advanced_at, look.at
                )
            )
        except LeaseChangedError as error:
            stop_as_refused(self.stop, error, self.attempt)
        except (ClientError, BotoCoreError) as error:
            # Work on: in an outage of DynamoDB nothing else can tell whether the job is still ours.
            # The fence keeps an attempt that has lost its lease from committing.
            silent_s = (look.at - (self._written_at or look.at)).total_seconds()
            logger.warning(
                "could not report progress",
                extra={"error": type(error).__name__, "silent_s": silent_s},
            )
        else:
            self._written, self._written_at = look, look.at
            if lease.cancel_requested_at is not None:
                self.stop.request(StopReason.CANCELLED, "cancelled on request")
