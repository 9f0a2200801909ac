"""Kills a job's processes from outside, as the kernel or an operator would: the job has no switch for it."""

import os
import signal

import psutil


def process_group_of(key: str) -> int | None:
    """The process group in which the task of that job key runs; None when none does."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("LONGHAUL_KEY") == key:
                return os.getpgid(process.pid)
        except (psutil.Error, ProcessLookupError):
            continue  # it ended while we looked, or is not ours to read
    return None


def kill(key: str) -> bool:
    """SIGKILL to the whole process group of a job's task; False when there was none any more."""
    group = process_group_of(key)
    if group is None:
        return False
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def task_processes() -> list[int]:
    """Processes of tasks that still run on this machine under this user."""
    found = []
    for process in psutil.process_iter():
        try:
            if "LONGHAUL_KEY" in process.environ():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
