"""Sends what the job has written while the job goes on.

Nothing of it is visible, and the end sends what is left.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from longhaul.domain.errors import LonghaulError, PermanentError
from longhaul.ports import Background, Clock
from longhaul.runner.io.written import Dataset, NotAFileError, regular_files
from longhaul.runner.stopping import Stop, StopReason, StopRequestedError

_MIB: Final = 1024 * 1024
WORTH_IT: Final = 64 * _MIB
"""Fewer bytes are sent in a moment. Each time takes a list, and a look at the output."""

# The requests of a file take as long as so many bytes.
_OF_EACH_FILE: Final = _MIB
# Each time names all files once more: a thousand datasets must not become a thousand lists.
_GROWTH: Final = 4
_LOOK_AGAIN_S: Final = 0.05

logger = logging.getLogger(__name__)


class AheadEndedError(LonghaulError):
    """The job has ended, or has to: nothing more is sent beside it."""


@dataclass
class SendingAhead:
    """`send` uploads datasets, all that there were so far, and calls what it gets between calls."""

    send: Callable[[Sequence[Dataset], Callable[[], None]], None]
    background: Background
    clock: Clock
    stop: Stop
    worth_it: int = WORTH_IT
    _datasets: list[Dataset] = field(default_factory=list)
    _waiting: int = 0
    _begun: int = 0
    _is_busy: bool = False
    _has_ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wrote(self, dataset: Dataset) -> None:
        """Take a dataset that will not change any more. It is sent once there is enough."""
        if not isinstance(dataset.folder, Path):  # on a cluster S3 copies it in the end
            return
        try:
            sizes = [status.st_size for _, status in regular_files(dataset.folder)]
        except (NotAFileError, OSError):  # the end says so
            return
        with self._lock:
            self._datasets.append(dataset)
            self._waiting += sum(sizes) + _OF_EACH_FILE * len(sizes)
            if self._is_busy or not self._is_due():
                return
            self._is_busy = True
        try:
            self.background.after(0, self._work)
        except RuntimeError:  # the job has all threads that there may be
            self._give_up()

    def end_soon(self) -> None:
        """Begin nothing more."""
        with self._lock:  # a thread of the job's may be about to begin
            self._has_ended = True

    def end(self) -> None:
        """The same, and wait for the calls that are on their way."""
        self.end_soon()
        while self._is_busy:
            self.clock.sleep(_LOOK_AGAIN_S)

    def _is_due(self) -> bool:
        enough = max(self.worth_it, self._begun // _GROWTH)
        return not self._has_ended and self._waiting >= enough

    def _work(self) -> None:
        try:
            while datasets := self._next():
                self.send(datasets, self._go_on)
        except (AheadEndedError, StopRequestedError):
            self._give_up()
        except PermanentError as error:  # the end would say the same, hours later
            self._give_up()
            self.stop.request(StopReason.OUTPUT, str(error), cause=error)
        except Exception as error:  # noqa: BLE001 - the end does it again, and raises it
            logger.warning(
                "not sent ahead: the end tries again", extra={"error": type(error).__name__}
            )
            self._give_up()

    def _next(self) -> tuple[Dataset, ...]:
        """What to send now. Empty: nothing, and from now on another may begin to work."""
        with self._lock:
            self._is_busy = self._is_due()
            if not self._is_busy:
                return ()
            self._begun += self._waiting
            self._waiting = 0
            return tuple(self._datasets)

    def _give_up(self) -> None:
        self.end_soon()
        self._is_busy = False

    def _go_on(self) -> None:
        self.stop.check()
        if self._has_ended:
            raise AheadEndedError
