"""Finds and kills the processes of tasks from outside, as the kernel or an operator would."""

import os
import signal
from collections.abc import Callable

import psutil


def process_group_of(key: str, endpoint: str) -> int | None:
    """The process group of the task that runs the job in that AWS; None without one.

    A task begins a session. Spark's workers in Python have another group in it, which is not sought
    here: those that are killed are started anew, and the attempt goes on.
    """
    sought = {"LONGHAUL_KEY": key, "AWS_ENDPOINT_URL": endpoint}.items()
    for process in psutil.process_iter():
        try:
            if sought <= process.environ().items():
                return os.getsid(process.pid)
        except (psutil.Error, ProcessLookupError):
            continue  # it has just ended, or is another user's
    return None


def kill(key: str, endpoint: str, *, unless: Callable[[], bool] = lambda: False) -> bool:
    """Send SIGKILL to the process group of the job's task or environment.

    The group is stopped while `unless` is asked, so that its answer still holds at the kill.

    Returns:
        False when nothing was killed: no task runs, or `unless` is true.
    """
    group = process_group_of(key, endpoint)
    if group is None:
        return False
    ending = signal.SIGCONT  # also if `unless` raises: nothing stays stopped for ever
    try:
        os.killpg(group, signal.SIGSTOP)
        try:
            if not unless():
                ending = signal.SIGKILL
        finally:
            os.killpg(group, ending)
    except ProcessLookupError:
        return False
    return ending is signal.SIGKILL


def processes_of(endpoint: str) -> dict[int, bool]:
    """The ids of all processes that were led to that AWS, and whether each runs a job."""
    found = {}
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        if environment.get("AWS_ENDPOINT_URL") == endpoint:
            found[process.pid] = "LONGHAUL_KEY" in environment
    return found
