"""What the container runs: `python -m jobs.runner`. Reads where it is from its environment, carries out the attempt, exits with a meaning.

The environment: LONGHAUL_KEY, LONGHAUL_RUN and LONGHAUL_ATTEMPT name the attempt, LONGHAUL_SETTINGS the surroundings, ECS's metadata the task.
"""

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from jobs.spark.gateway import Gateway
from jobs.stopping import Stop, StopReason
from jobs.task import this_task

if TYPE_CHECKING:
    from jobs.attempt import Attempt

# A stopped attempt has this long to unwind by itself before it is ended where it stands; always well within ECS's stop timeout.
_UNWIND_S: Final = 5.0
_UNWIND_FRACTION: Final = 0.5

logger = logging.getLogger(__name__)


def main() -> int:
    """Carry out the attempt that the environment names; answers the exit code."""
    stop = Stop()
    _stop_on_sigterm(stop)
    task = this_task()
    scratch = Path(tempfile.mkdtemp(prefix="longhaul-"))
    gateway = Gateway(scratch, task.resources.heap_mib)
    try:
        # Only now: what this imports (boto3, pydantic, PySpark) would keep the JVM waiting, which takes longer than all else.
        from jobs.wiring import attempt_of  # noqa: PLC0415

        attempt = attempt_of(task, gateway, scratch, stop)
        grace_s = min(_UNWIND_S, attempt.settings.lease.stop_timeout_s * _UNWIND_FRACTION)
        stop.on_request(lambda: _end_soon(attempt, grace_s))
        return int(attempt.run())
    finally:
        gateway.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def _stop_on_sigterm(stop: Stop) -> None:
    def handle(_number: int, _frame: FrameType | None) -> None:
        # In a thread: the handler interrupts the main thread anywhere, also where it holds a lock that the stop needs.
        threading.Thread(
            target=stop.request, args=(StopReason.TERMINATED, "the platform asked the task to stop (SIGTERM)")
        ).start()

    signal.signal(signal.SIGTERM, handle)


def _end_soon(attempt: "Attempt", grace_s: float) -> None:
    """End the process after the grace period, whatever the main thread is stuck in."""
    from jobs import failures  # noqa: PLC0415 - as above; imported by now

    def end() -> None:
        time.sleep(grace_s)
        failure = failures.of_stop(attempt.stop)
        logger.warning("did not unwind in time: ending now", extra={"outcome": failure.kind.value})
        attempt.record(failure)
        os._exit(failure.exit_code)

    threading.Thread(target=end, name="last-resort", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
