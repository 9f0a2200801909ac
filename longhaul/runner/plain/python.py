"""A job without Spark: plain Python in this process, with the processes that it starts."""

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import psutil

from longhaul.runner.stopping import Stop, children, end_children

# The job's own code may use SIGALRM, and libraries SIGUSR1.
_SIGNAL: Final = signal.SIGUSR2
_EVENTS: Final = (  # of the task's cgroup, as version 2 and 1 have them
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
)
_OOM_KILLS: Final = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


class _Stopped(BaseException):
    """Raised in the job's code, wherever it is."""


def run_plain(run: Callable[[], None], stop: Stop) -> None:
    """Run the job to its end in the calling thread, and end the processes that it has left.

    A stop kills those, and unwinds the job.

    Raises:
        StopRequestedError: the attempt has to stop.
        MemoryError: the kernel killed one of its processes because the memory was used up.
        Exception: as the job raises it.
    """
    killed, before = _oom_kills(), children()
    try:
        with _unwound_by(stop, before):
            run()
    except _Stopped:
        stop.check()
        raise
    except Exception as error:
        # A library says that a process ended, and not why.
        if not stop.requested and _oom_kills() > killed:
            raise MemoryError(
                "the kernel killed a process of the job: the task's memory is used up"
            ) from error
        raise
    finally:
        # Their memory is free for the upload, and nothing changes a file while it is sent.
        end_children(before)


@contextmanager
def _unwound_by(stop: Stop, spared: frozenset[psutil.Process]) -> Iterator[None]:
    """Let a stop raise `_Stopped` in the block.

    By a signal, which also ends a sleep and a wait for a process or for data. Code of C that takes
    none is ended with the process, after the grace period.
    """
    main, is_running = threading.main_thread(), True

    def unwind(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_running
        if is_running:
            is_running = False
            raise _Stopped

    def end() -> None:
        end_children(spared)
        # What the job's own thread has requested it raises itself.
        if is_running and main.ident and threading.current_thread() is not main:
            signal.pthread_kill(main.ident, _SIGNAL)

    if threading.current_thread() is main:
        # It stays: the signal may come when the block is over, and would end the process.
        signal.signal(_SIGNAL, unwind)
    stop.on_request(end)
    try:
        yield
    finally:
        is_running = False


def _oom_kills() -> int:
    """How many processes of the task the kernel has killed for their memory; 0: it does not say."""
    for file in _EVENTS:
        try:
            found = _OOM_KILLS.search(file.read_text())
        except OSError:
            continue
        if found:
            return int(found[1])
    return 0
