"""How a runner is ended: SIGTERM is a request to stop, and a stop that the main thread does not heed ends the process anyway."""

import logging
import os
import signal
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Final

from jobs.stopping import Stop, StopReason

if TYPE_CHECKING:
    from jobs.attempt import Attempt

# A stopped attempt has this long to unwind by itself before it is ended where it stands; always well within ECS's stop timeout.
_UNWIND_S: Final = 5.0
_UNWIND_FRACTION: Final = 0.5

logger = logging.getLogger(__name__)


def stop_on_sigterm(stop: Stop) -> None:
    def handle(_number: int, _frame: FrameType | None) -> None:
        # In a thread: the handler interrupts the main thread anywhere, also where it holds a lock that the stop needs.
        threading.Thread(
            target=stop.request, args=(StopReason.TERMINATED, "the platform asked the task to stop (SIGTERM)")
        ).start()

    signal.signal(signal.SIGTERM, handle)


def end_soon(attempt: "Attempt") -> None:
    """End the process after the grace period, whatever the main thread is stuck in."""
    from jobs import failures  # noqa: PLC0415 - imported by now; at a start it would keep the JVM waiting

    grace_s = min(_UNWIND_S, attempt.settings.lease.stop_timeout_s * _UNWIND_FRACTION)

    def end() -> None:
        time.sleep(grace_s)
        failure = failures.of_stop(attempt.stop)
        logger.warning("did not unwind in time: ending now", extra={"outcome": failure.kind.value})
        attempt.record(failure)
        os._exit(failure.exit_code)

    threading.Thread(target=end, name="last-resort", daemon=True).start()
