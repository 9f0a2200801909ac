"""Tells the lease row how far the attempt is, and listens to what it answers: lost and cancelled attempts stop within one period."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from jobs.spark.progress import ProcessTree, SparkSample
from jobs.stopping import Stop, StopReason
from longhaul.domain.errors import LeaseChangedError
from longhaul.domain.lease import AttemptId
from longhaul.ports import Clock, LeaseStore

logger = logging.getLogger(__name__)

_NOTE_CHARS = 120
_MAX_STAGES = 4  # of those active at once; the row is to stay below 1 KiB


class Phase(StrEnum):
    STAGING = "staging"
    RUNNING = "running"
    PUBLISHING = "publishing"


# Which part of the whole each phase is; the middle one is the job's.
_SPAN: Final = {Phase.STAGING: (0.0, 0.1), Phase.RUNNING: (0.1, 0.9), Phase.PUBLISHING: (0.9, 1.0)}


@dataclass
class Progress:
    """What is known of the attempt. Written by the thread that works, read by the one that reports; each field is replaced whole."""

    phase: Phase = Phase.STAGING
    note: str = ""
    done: int = 0  # bytes while staging and publishing
    total: int = 0
    ticks: int = 0  # counts every step, whatever its size
    quiet_until: datetime | None = None  # nothing need happen before
    _fraction: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, phase: Phase, total: int = 0) -> None:
        with self._lock:
            self.phase, self.done, self.total = phase, 0, total
            self.ticks += 1

    def say(self, note: str) -> None:
        with self._lock:
            self.note = note[:_NOTE_CHARS]
            self.ticks += 1

    def be_quiet(self, note: str, until: datetime | None) -> None:
        """What is waited for, and how long that may last; None when the wait is over."""
        self.say(note)
        with self._lock:
            self.quiet_until = until

    def advance(self, amount: int) -> None:
        with self._lock:
            self.done += amount
            self.ticks += 1

    def fraction(self, spark: SparkSample) -> float:
        """How much of the whole is done, between 0 and 1. It never goes back, though Spark learns of new stages as it goes."""
        start, end = _SPAN[self.phase]
        done, total = (spark.done, spark.total) if self.phase is Phase.RUNNING else (self.done, self.total)
        within = min(done / total, 1.0) if total else 0.0
        self._fraction = max(self._fraction, round(start + (end - start) * within, 3))
        return self._fraction


@dataclass
class Reporter:
    """The thread that writes progress under the attempt's token."""

    leases: LeaseStore
    attempt: AttemptId
    clock: Clock
    stop: Stop
    progress: Progress
    period_s: float
    # Without a word for this long the heartbeat calls the job stalled; going on would be work for nothing.
    give_up_s: float
    spark: Callable[[], SparkSample] = SparkSample
    tree: ProcessTree = field(default_factory=ProcessTree)
    _finished: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _seen: object = None
    _advanced_at: datetime | None = None
    _written_at: datetime | None = None

    def start(self) -> None:
        self._advanced_at = self._written_at = self.clock.now()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Write no more. A write on its way is waited for, so that none comes after what follows."""
        self._finished.set()
        if self._thread is not None:
            self._thread.join(timeout=self.period_s + 10)

    def _run(self) -> None:
        try:
            while not self._finished.wait(self.period_s) and not self.stop.requested:
                self.report()
        except Exception as error:
            # Without reports the heartbeat would kill the attempt much later, and nobody would know why.
            logger.exception("the progress thread failed")
            self.stop.request(StopReason.UNREPORTABLE, f"the progress thread failed: {type(error).__name__}")

    def report(self) -> None:
        """Write once, and heed the answer."""
        now, spark, effort = self.clock.now(), self.spark(), self.tree.effort()
        seen = (self.progress.ticks, spark)
        quiet_until = self.progress.quiet_until
        is_quiet = quiet_until is not None and now <= quiet_until
        # A task on an executor is taken for work: Spark itself misses the executor that dies, and a task that hangs has the job's timeout.
        is_work = effort.is_work or spark.runs_elsewhere
        if seen != self._seen or is_work or is_quiet or self._advanced_at is None:
            self._advanced_at = now
        self._seen = seen
        document: dict[str, Any] = {
            "phase": self.progress.phase.value,
            "fraction": self.progress.fraction(spark),
            "note": self.progress.note,
            "tasks": [spark.done, spark.total],
            "rows": [spark.rows_read, spark.rows_written],
            "stages": [[stage.id, stage.done, stage.total] for stage in spark.active[:_MAX_STAGES]],
            "cpu_s_per_s": round(effort.cpu_s / effort.seconds, 2) if effort.seconds else 0,
            "io_bytes_per_s": round(effort.io_bytes / effort.seconds) if effort.seconds else 0,
        }
        try:
            lease = self.leases.report_progress(self.attempt, document, self._advanced_at)
        except LeaseChangedError:
            self.stop.request(StopReason.SUPERSEDED, "this attempt does not own the job any more")
        except (ClientError, BotoCoreError) as error:
            self._could_not_write(now, error)
        else:
            self._written_at = now
            if lease.cancel_requested_at is not None:
                self.stop.request(StopReason.CANCELLED, "cancelled on request")

    def _could_not_write(self, now: datetime, error: Exception) -> None:
        silent_s = (now - (self._written_at or now)).total_seconds()
        logger.warning("could not report progress", extra={"error": type(error).__name__, "silent_s": silent_s})
        if silent_s > self.give_up_s:
            self.stop.request(StopReason.UNREPORTABLE, f"could not report progress for {silent_s:.0f} s: {error}")
