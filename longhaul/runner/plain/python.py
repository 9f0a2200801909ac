"""A job without Spark: plain Python in this process, with the processes that it starts.

And Spark for the jobs that need it, without a JVM for those that do not.
"""

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, cast

import psutil

from longhaul.core.job_kinds import JobKind
from longhaul.job import PermanentJobError
from longhaul.runner.spark.sample import SparkSample
from longhaul.runner.stopping import Stop, Unwound, children, end_children

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from longhaul.runner.attempt import Spark
    from longhaul.runner.loading import LoadedJob
    from longhaul.runner.running_job import RunningJob

# The job's own code may use SIGALRM, and libraries SIGUSR1.
_SIGNAL: Final = signal.SIGUSR2
_EVENTS: Final = (  # of the task's cgroup, as version 2 and 1 have them
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
)
_OOM_KILLS: Final = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


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
    except Unwound:
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
    """Let a stop raise `Unwound` in the block.

    By a signal, which also ends a sleep and a wait for a process or for data. Code of C that takes
    none is ended with the process, after the grace period.
    """
    main, is_running = threading.main_thread(), True

    def unwind(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_running
        if is_running:
            is_running = False
            raise Unwound

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


PLAIN: Final = "plain"
"""In the place of Spark's version, for what a job without it stores."""
NO_SPARK: Final = (
    "job: needs Spark, which is not installed here: pip install 'longhaul-jobs[spark]'"
)


class SparkOnDemand:
    """`longhaul.runner.attempt.Spark`, which is made when a job is known to need one."""

    def __init__(self, make: "Callable[[], Spark]", stop: Stop) -> None:
        self._make = make
        self._stop = stop
        self._spark: Spark | None = None

    @property
    def version(self) -> str:
        return self._spark.version if self._spark else PLAIN

    def begin(self, kind: JobKind) -> None:
        if kind is not JobKind.PLAIN and self._spark is None:
            try:
                self._spark = self._make()
            except ModuleNotFoundError as error:
                raise PermanentJobError(NO_SPARK) from error

    def await_session(self, input_bytes: int = 0) -> None:
        self.begin(JobKind.SPARK)
        if self._spark is not None:
            self._spark.await_session(input_bytes)

    def run(self, loaded: "LoadedJob", job: "RunningJob[Any]") -> None:
        if self._spark is not None:
            self._spark.run(loaded, job)
        else:
            run_plain(lambda: loaded.run(cast("SparkSession", None), job), self._stop)

    def sample(self) -> SparkSample:
        return self._spark.sample() if self._spark else SparkSample()
