"""What an attempt still does once the platform has asked for its end, and before it must end."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from longhaul.ports import Background, Clock
from longhaul.runner.running_job import RunningJob
from longhaul.runner.saving import Saving
from longhaul.runner.stopping import TERMINATED, Stop, StopReason, unwind_s

_LOOK_AGAIN_S: Final = 0.05

logger = logging.getLogger(__name__)


@dataclass
class GracePeriod:
    """Finishes what is being stored, and calls what the job has for its end, if there is time.

    `timeout_s` is the platform's, from its signal to its kill. `report` writes the attempt's
    progress, and requests a stop if the row says so: an attempt that has lost its lease, or is
    cancelled, has no use for what it could store.
    """

    job: RunningJob[Any]
    saving: Saving
    report: Callable[[], None]
    stop: Stop
    timeout_s: float
    background: Background
    clock: Clock

    def use(self) -> None:
        """Return when all is done, the job has ended, or time is up."""
        left_s = self.timeout_s - 2 * unwind_s(self.timeout_s)
        self.job.hear_of_stop()
        ends_at = self.clock.now() + timedelta(seconds=left_s)
        # Whatever hangs: the end must be recorded in time.
        guard = self.background.after(
            left_s, lambda: self.stop.request(StopReason.TERMINATED, TERMINATED)
        )
        try:
            self.saving.await_upload()
            if self.job.stop_callbacks:
                self.report()
        except Exception as error:
            logger.warning("what is done before the end failed", exc_info=error)
        try:
            for callback in self.job.stop_callbacks:
                if not self.stop.requested:
                    _call(callback, max(0.0, (ends_at - self.clock.now()).total_seconds()))
            # It may be about to save, and to return.
            while self.job.asks_for_stop and not (self.job.has_ended or self.stop.requested):
                self.clock.sleep(_LOOK_AGAIN_S)
        finally:
            guard.cancel()


def _call(callback: Callable[[float], None], left_s: float) -> None:
    try:
        callback(left_s)
    except Exception as error:
        logger.warning("what the job does at its end failed", exc_info=error)
