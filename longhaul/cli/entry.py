"""The program `longhaul`: loads the commands, and runs one."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# As `ExitStatus.INTERRUPTED`, whose module loads boto3: too long to wait for Ctrl-C.
INTERRUPTED = 130


@contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process while modules are imported, without a traceback.

    No exception: pydantic, which builds its models then, makes an error of its own of one.
    """
    at_interrupt = signal.getsignal(signal.SIGINT)
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or at_interrupt is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, at_interrupt)


def main() -> None:
    """Entry point.

    A running command has its own way to end.
    """
    try:
        with ended_by_interrupt():
            from longhaul.cli.cli import main as run  # noqa: PLC0415 - may be interrupted too
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
