"""Spark for the time of one attempt: its session is made in the background, its JVM watched, and gone when the attempt is."""

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobs.spark.gateway import OUT_OF_MEMORY_EXIT, Gateway
from jobs.stopping import Stop, StopReason
from jobs.task import Resources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A SIGTERM for the whole group reaches the JVM as well: its own cause comes first, if it comes within this time.
_OTHER_CAUSE_WAIT_S: Final = 0.5
_KILLED: Final = -9


class RunningSpark:
    """Spark on a gateway that may still be booting. A stop ends the JVM, and the JVM's death is a stop."""

    def __init__(self, gateway: Gateway, name: str, resources: Resources, scratch: Path, stop: Stop) -> None:
        """Begin to make the session, and return at once."""
        self._gateway = gateway
        self._stop = stop
        self._session: Future[SparkSession] = Future()
        gateway.on_death(self._died)
        stop.on_request(gateway.stop)
        arguments = (name, resources, scratch)
        threading.Thread(target=self._make_session, args=arguments, name="spark-boot", daemon=True).start()

    def session(self) -> "SparkSession":
        """The session, once it is there: the active one of the calling thread.

        Raises:
            GatewayError: the JVM did not come up.
        """
        spark = self._session.result()
        from jobs.spark.session import make_active  # noqa: PLC0415 - imported by now

        make_active(spark)
        return spark

    def close(self) -> None:
        """End Spark. May be called again."""
        has_session = self._session.done() and self._session.exception() is None
        if has_session and self._gateway.is_alive and not self._stop.requested:
            # Else every Java object that Python drops from now on is an error in the log: it would be told to a JVM that is gone.
            self._session.result().sparkContext._gateway.shutdown()  # type: ignore[union-attr]  # noqa: SLF001 - PySpark leaves it open
        self._gateway.stop()

    def _make_session(self, name: str, resources: Resources, scratch: Path) -> None:
        try:
            self._gateway.attach()
            # PySpark takes a while to import, and so does the JVM to boot.
            from jobs.spark.session import build_session, session_options  # noqa: PLC0415 - see above

            self._session.set_result(build_session(name, session_options(resources, scratch)))
        except BaseException as error:  # noqa: BLE001 - raised where the session is waited for
            self._session.set_exception(error)

    def _died(self, code: int) -> None:
        if not self._stop.wait(_OTHER_CAUSE_WAIT_S):
            self._stop.request(*cause_of_death(code, self._gateway.last_words()))


def cause_of_death(code: int, last_words: str) -> tuple[StopReason, str]:
    """Why a JVM ended that nobody asked to: its exit code (negative: a signal) and the last line that it printed."""
    if code == OUT_OF_MEMORY_EXIT or "OutOfMemoryError" in last_words:
        return StopReason.OUT_OF_MEMORY, f"Spark's JVM ran out of memory: {last_words}"
    if code == _KILLED:
        return StopReason.OUT_OF_MEMORY, "Spark's JVM was killed, as the kernel does when the task's memory is used up"
    return StopReason.JVM_DIED, f"Spark's JVM ended with {code}: {last_words}"
