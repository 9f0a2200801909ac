"""Whether an attempt has to stop, and why; and how its process is ended.

The first reason wins. The code that works checks between two steps.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NoReturn

import psutil

from longhaul.core.errors import LonghaulError
from longhaul.runner import masked_output

if TYPE_CHECKING:
    from longhaul.core.ports import Background, Clock
    from longhaul.runner.running_job import RunningJob

# A stopped attempt has this long to unwind by itself before its process is ended; always well
# within ECS's stop timeout, of which half at least is for what the job stores at its end.
_UNWIND_S: Final = 5.0
_UNWIND_FRACTION: Final = 0.25
_LOOK_AGAIN_S: Final = 0.05

TERMINATED: Final = "the platform asked the task to stop (SIGTERM)"

logger = logging.getLogger(__name__)


class StopReason(StrEnum):
    TERMINATED = "terminated"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    JVM_DIED = "jvm_died"
    OUT_OF_MEMORY = "out_of_memory"
    UNREPORTABLE = "unreportable"


class StopRequestedError(LonghaulError):
    """Raised by `Stop.check` in the code that works."""


class Unwound(BaseException):
    """Raised by a stop in a job's own code, wherever it is: no handler of the job takes it."""


class Stop:
    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.detail = ""
        self._lock = threading.Lock()
        self._requested = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        # What may still be done when the platform asks for the end, before the stop is requested.
        self.before_end: Callable[[], None] = lambda: None

    @property
    def requested(self) -> bool:
        return self._requested.is_set()

    def request(self, reason: StopReason, detail: str) -> None:
        """Ask for the stop.

        Not from a signal handler: it may have interrupted the holder of the lock.
        """
        with self._lock:
            if self.reason is not None:
                return
            self.reason, self.detail = reason, detail
            callbacks = list(self._callbacks)
            self._requested.set()
        for callback in callbacks:
            callback()

    def on_request(self, callback: Callable[[], None]) -> None:
        """Call `callback` at the request; at once if it was made already."""
        with self._lock:
            if self.reason is None:
                self._callbacks.append(callback)
                return
        callback()

    def wait(self, seconds: float) -> bool:
        """Whether a stop was requested within that time. It blocks a thread: for Spark only."""
        return self._requested.wait(seconds)

    def check(self) -> None:
        """Raise StopRequestedError if a stop was requested."""
        if self.requested:
            raise StopRequestedError(self.detail)


def stop_on_sigterm(stop: Stop, background: "Background") -> None:
    signal.signal(signal.SIGTERM, lambda *_: hear_sigterm(stop, background))
    # A process that the job forks has our handler, and would end the attempt in our place:
    # `multiprocessing.Pool` ends its workers so.
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def hear_sigterm(stop: Stop, background: "Background") -> None:
    """Request the stop in the background: the main thread may hold the lock of `stop`."""

    def end() -> None:
        try:
            stop.before_end()
        finally:
            stop.request(StopReason.TERMINATED, TERMINATED)

    background.after(0, end)


def unwind_s(stop_timeout_s: float) -> float:
    """How long a stopped attempt has to unwind by itself."""
    return min(_UNWIND_S, stop_timeout_s * _UNWIND_FRACTION)


def use_grace(
    job: "RunningJob[Any]",
    report: Callable[[], None],
    stop: Stop,
    timeout_s: float,
    background: "Background",
    clock: "Clock",
) -> None:
    """Finish what is being stored, and call what the job has for its end, if there is time.

    Once the platform has asked for the end of the task, and before it must end. Returns when all is
    done, the job has ended, or time is up.

    Args:
        job: what runs.
        report: writes the attempt's progress, and requests a stop if the row says so: an attempt
            that has lost its lease, or is cancelled, has no use for what it could store.
        stop: the attempt's, which is requested when time is up.
        timeout_s: the platform's, from its signal to its kill.
        background: of the attempt.
        clock: of the attempt.
    """
    left_s = timeout_s - 2 * unwind_s(timeout_s)
    job.hears_of_stop = True
    ends_at = clock.now() + timedelta(seconds=left_s)
    # Whatever hangs: the end must be recorded in time.
    guard = background.after(left_s, lambda: stop.request(StopReason.TERMINATED, TERMINATED))
    try:
        job.saving.await_upload()
        if job.stop_callbacks:
            report()
    except Exception as error:
        logger.warning("what is done before the end failed", exc_info=error)
    try:
        for callback in job.stop_callbacks:
            if not stop.requested:
                _call(callback, max(0.0, (ends_at - clock.now()).total_seconds()))
        # It may be about to save, and to return.
        while job.asks_for_stop and not (job.has_ended or stop.requested):
            clock.sleep(_LOOK_AGAIN_S)
    finally:
        guard.cancel()


def _call(callback: Callable[[float], None], left_s: float) -> None:
    try:
        callback(left_s)
    except Exception as error:
        logger.warning("what the job does at its end failed", exc_info=error)


def children() -> frozenset[psutil.Process]:
    """Each process below this one."""
    return frozenset(psutil.Process().children(recursive=True))


def end_children(spared: frozenset[psutil.Process] = frozenset()) -> None:
    """Kill each process below this one but these."""
    for each in children() - spared:
        with suppress(psutil.NoSuchProcess):
            each.kill()


def end_with_children(code: int) -> None:
    """End this process now, and each below it: a pool replaces those that a stop has killed."""
    end_children()
    masked_output.end()
    os._exit(code)


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Call a runner's `main`, and end the process with the code that it returns."""
    code = 1
    try:
        code = main()
    except Exception:
        logger.exception("the runner failed")
    finally:
        end_process(code)


def end_process(code: int) -> NoReturn:
    """End this process now.

    `sys.exit` would wait for each thread that a job has left. The output is published by then, and
    the task would go on, and cost, to its hard timeout.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader is gone, or the job has closed it
            stream.flush()
    masked_output.end()
    os._exit(code)
