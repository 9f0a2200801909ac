"""Spark for the time of one attempt: booted in the background, watched, and gone when the attempt is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from jobs.spark.gateway import OUT_OF_MEMORY_EXIT, Gateway
from jobs.spark.session import build_session
from jobs.stopping import Stop, StopReason
from jobs.task import Resources

# A SIGTERM for the whole group reaches the JVM as well: its own cause comes first, if it comes within this time.
_OTHER_CAUSE_WAIT_S: Final = 0.5
_KILLED: Final = -9


@contextmanager
def running_spark(name: str, resources: Resources, scratch: Path, stop: Stop) -> Iterator[Callable[[], SparkSession]]:
    """Boot the JVM and go on; the function that this yields waits for it and answers the session. A stop ends the JVM, and its death is a stop."""
    gateway = Gateway(scratch, resources.heap_mib)

    def died(code: int) -> None:
        if not stop.wait(_OTHER_CAUSE_WAIT_S):
            stop.request(*cause_of_death(code, gateway.last_words()))

    def session() -> SparkSession:
        gateway.attach()
        return build_session(name, resources, scratch)

    gateway.on_death(died)
    stop.on_request(gateway.stop)
    try:
        yield session
    finally:
        active = SparkSession.getActiveSession()
        if active is not None and not stop.requested and gateway.is_alive:
            active.stop()
        gateway.stop()


def cause_of_death(code: int, last_words: str) -> tuple[StopReason, str]:
    """Why a JVM ended that nobody asked to: its exit code (negative: a signal) and the last line that it printed."""
    if code == OUT_OF_MEMORY_EXIT or "OutOfMemoryError" in last_words:
        return StopReason.OUT_OF_MEMORY, f"Spark's JVM ran out of memory: {last_words}"
    if code == _KILLED:
        return StopReason.OUT_OF_MEMORY, "Spark's JVM was killed, as the kernel does when the task's memory is used up"
    return StopReason.JVM_DIED, f"Spark's JVM ended with {code}: {last_words}"
