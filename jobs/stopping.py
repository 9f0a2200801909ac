"""One place that says whether this attempt has to stop, and why. The first reason wins; whoever works asks between two steps."""

import threading
from collections.abc import Callable
from enum import StrEnum

from longhaul.domain.errors import LonghaulError


class StopReason(StrEnum):
    TERMINATED = "terminated"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    JVM_DIED = "jvm_died"
    OUT_OF_MEMORY = "out_of_memory"
    UNREPORTABLE = "unreportable"


class StopRequestedError(LonghaulError):
    """Raised in whatever the attempt was doing, once a stop was requested."""


class Stop:
    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.detail = ""
        self._lock = threading.Lock()
        self._requested = threading.Event()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def requested(self) -> bool:
        return self._requested.is_set()

    def request(self, reason: StopReason, detail: str) -> None:
        """Ask for the stop. Not for signal handlers themselves, which may interrupt a holder of the lock: they start a thread."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason, self.detail = reason, detail
            callbacks = list(self._callbacks)
            self._requested.set()
        for callback in callbacks:
            callback()

    def on_request(self, callback: Callable[[], None]) -> None:
        """Call back at the request; at once when it has been made already."""
        with self._lock:
            if self.reason is None:
                self._callbacks.append(callback)
                return
        callback()

    def wait(self, seconds: float) -> bool:
        """Whether a stop was requested within that time."""
        return self._requested.wait(seconds)

    def check(self) -> None:
        """Raise StopRequestedError if a stop was requested."""
        if self.requested:
            raise StopRequestedError(self.detail)
