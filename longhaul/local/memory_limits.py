"""Limits the memory of tasks, as a container's control group does on Fargate.

A control group of one's own needs rights that a user of a machine rarely has. So the processes of
each task are looked at a few times a second. Once they hold more than their limit, the largest is
killed, which is what the kernel does in a container. A task that takes a gigabyte in less time than
between two looks has it for so long.

What counts is what the kernel could not take back: anonymous and shared memory, of several
processes once. Files that are mapped or cached do not count.
"""

import os
import signal
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Thread

import psutil

# A look costs some 5 µs for each process of the machine, and 30 µs for each of a task's.
PERIOD_S = 0.25
_KIB = 1024


@dataclass
class _Limit:
    bytes: int
    reached: bool = False


class MemoryLimits:
    def __init__(self) -> None:
        self._changed = Condition()
        self._limits: dict[int, _Limit] = {}
        self._closed = False
        self._thread = Thread(target=self._watch, name="memory-limits", daemon=True)
        self._thread.start()

    def put(self, session: int, limit_bytes: int) -> None:
        """Limit the processes of a session; its id is that of its first process."""
        with self._changed:
            self._limits[session] = _Limit(limit_bytes)
            self._changed.notify()

    def lift(self, session: int) -> bool:
        """End the limit of a session. Returns whether a process was killed for it."""
        with self._changed:
            limit = self._limits.pop(session, None)
            return limit is not None and limit.reached

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._limits)
                self._changed.wait_for(lambda: self._closed, PERIOD_S)
                if self._closed:
                    return
                # Under the lock: a session whose limit is lifted may be another's soon after.
                for session, pids in _processes(set(self._limits)).items():
                    self._hold(self._limits[session], pids)

    @staticmethod
    def _hold(limit: _Limit, pids: list[int]) -> None:
        # Two steps, because the exact figure costs a walk over all pages of a process.
        for measure in (_resident, _charged):
            used = {pid: measure(pid) for pid in pids}
            if sum(used.values()) <= limit.bytes:
                return
        limit.reached = True
        with suppress(ProcessLookupError):
            os.kill(max(used, key=lambda pid: used[pid]), signal.SIGKILL)


def _processes(sessions: set[int]) -> dict[int, list[int]]:
    """The processes of some sessions. A program may leave its process group, as Spark's do."""
    found = defaultdict(list)
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if (session := os.getsid(pid)) in sessions:
                found[session].append(pid)
    return found


def _resident(pid: int) -> int:
    """At least what a process is charged with, in bytes; shared pages count in each process."""
    return _read(pid, "status", ("RssAnon", "RssShmem"))


def _charged(pid: int) -> int:
    """The same with a share of each shared page, in bytes."""
    return _read(pid, "smaps_rollup", ("Pss_Anon", "Pss_Shmem"))


def _read(pid: int, file: str, names: tuple[str, ...]) -> int:
    """The sum of some lines such as `RssAnon:  12 kB`, in bytes; 0 where there are none."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return _KIB * sum(int(line.split()[1]) for line in lines if line.partition(":")[0] in names)
