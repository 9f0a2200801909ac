"""Spark on one machine: its JVM is watched, and gone when the attempt is."""

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from longhaul.runner.resources import Resources
from longhaul.runner.spark.base import BaseSpark
from longhaul.runner.spark.gateway import OUT_OF_MEMORY_EXIT, Gateway
from longhaul.runner.spark.session import build_session, session_options
from longhaul.runner.stopping import Stop, StopReason

# A SIGTERM for the whole process group reaches the JVM as well. Its own stop comes first, if it
# comes within this time.
_OTHER_CAUSE_WAIT_S: Final = 0.5
_KILLED: Final = -9


class LocalSpark(BaseSpark):
    """Spark on a gateway that may still be booting.

    A stop ends the JVM, and the JVM's death requests a stop.
    """

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        resources: Resources,
        scratch: Path,
        stop: Stop,
        *,
        watch_every_s: float,
    ) -> None:
        """Begin to make the session, and return at once."""
        super().__init__(resources, stop, watch_every_s=watch_every_s)
        self._gateway = gateway
        gateway.on_death(self._died)
        stop.on_request(gateway.stop)

        def attach_and_build() -> SparkSession:
            gateway.attach()
            return build_session(name, session_options(resources, scratch))

        self._begin_session(attach_and_build)

    def close(self) -> None:
        if self._has_session and self._gateway.is_alive and not self._stop.requested:
            # Otherwise Py4J logs an error for each Java object collected after the JVM exits.
            # PySpark has no public way.
            self._session.result().sparkContext._gateway.shutdown()  # type: ignore[union-attr]  # noqa: SLF001
        self._gateway.stop()

    def _died(self, code: int) -> None:
        if not self._stop.wait(_OTHER_CAUSE_WAIT_S):
            self._stop.request(*cause_of_death(code, self._gateway.last_words()))


def cause_of_death(code: int, last_words: str) -> tuple[StopReason, str]:
    """Why a JVM ended unasked.

    Args:
        code: its exit code; negative for a signal.
        last_words: the last line that it printed.
    """
    if code == OUT_OF_MEMORY_EXIT or "OutOfMemoryError" in last_words:
        return StopReason.OUT_OF_MEMORY, f"Spark's JVM ran out of memory: {last_words}"
    if code == _KILLED:
        return (
            StopReason.OUT_OF_MEMORY,
            "Spark's JVM was killed, as the kernel does when the task's memory is used up",
        )
    return StopReason.JVM_DIED, f"Spark's JVM ended with {code}: {last_words}"
