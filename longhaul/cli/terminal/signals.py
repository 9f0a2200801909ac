"""Ctrl-C and SIGTERM for the commands that run until one of them comes, or that clear up."""

import faulthandler
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

Handler = Callable[[int, FrameType | None], object]
_STOP = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_signals() -> Iterator[Callable[[Handler], None]]:
    """Raise KeyboardInterrupt at SIGINT and SIGTERM, until the function it yields sets a handler.

    SIGINT too: a shell starts a background job with SIGINT ignored, and Python leaves it so.
    """

    def handle(handler: Handler) -> None:
        for number in _STOP:
            signal.signal(number, handler)

    before = {number: signal.getsignal(number) for number in _STOP}
    handle(signal.default_int_handler)
    try:
        yield handle
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ends_within(limit_s: float, stopping: Event) -> Handler:
    """A handler that sets the event, and lets the process end in any case.

    What hangs then is shown, as each thread's stack on stderr, and the exit code is 1.
    """

    def handle(*_: object) -> None:
        faulthandler.dump_traceback_later(limit_s, exit=True)
        stopping.set()

    return handle


@contextmanager
def signals_ignored() -> Iterator[None]:
    """Let neither interrupt what removes the traces of a command."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _STOP}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
