"""Ctrl-C while modules are imported. Loads nothing that takes time itself."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from longhaul.cli.errors import ExitStatus


@contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process in the block, without a traceback.

    No exception: pydantic, which builds its models there, makes an error of its own of one.
    """
    at_interrupt = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or at_interrupt is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(ExitStatus.INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, at_interrupt)
