"""What an attempt still does once the platform has asked for its end, and before it must end."""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from longhaul.core.ports import Background, Clock
from longhaul.runner.running_job import RunningJob
from longhaul.runner.stopping import TERMINATED, Stop, StopReason, unwind_s

_LOOK_AGAIN_S: Final = 0.05

logger = logging.getLogger(__name__)


def use_grace(
    job: RunningJob[Any],
    report: Callable[[], None],
    stop: Stop,
    timeout_s: float,
    background: Background,
    clock: Clock,
) -> None:
    """Finish what is being stored, and call what the job has for its end, if there is time.

    Returns when all is done, the job has ended, or time is up.

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
    job.hear_of_stop()
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
