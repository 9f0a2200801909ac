"""Processes that tests fork. None goes on as the test, and as pytest, behind what it has to do."""

import os
import signal
import traceback
import warnings
from collections.abc import Callable


def fork(do: Callable[[], object], *, within_s: int = 60) -> int:
    """A child that does it and ends: with 1 if that raises, and by SIGALRM if it takes longer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(within_s)
            do()
        except BaseException:  # noqa: BLE001 - the exit code says so
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def exit_code(child: int) -> int:
    """Wait for its end. Minus the number of a signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
