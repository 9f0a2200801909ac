"""Finds and kills the processes of tasks from outside, as the kernel or an operator would."""

import os
import signal
from collections.abc import Callable

import psutil


def process_group_of(key: str) -> int | None:
    """The process group of the task that runs the job; None without one."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("LONGHAUL_KEY") == key:
                return os.getpgid(process.pid)
        except (psutil.Error, ProcessLookupError):
            continue  # it has just ended, or is another user's
    return None


def kill(key: str, *, unless: Callable[[], bool] = lambda: False) -> bool:
    """Send SIGKILL to the process group of the job's task or environment.

    The group is stopped while `unless` is asked, so that its answer still holds at the kill.

    Returns:
        False when nothing was killed: no task runs, or `unless` is true.
    """
    group = process_group_of(key)
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
