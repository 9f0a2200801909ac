"""Child processes that end with all their descendants, and within their memory.

Each child leads a session and a process group of its own. The group is killed when the child ends,
and when this process ends, however it does. What Linux alone can tell is replaced on macOS here.
"""

import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Lock, Thread, Timer
from typing import Final

import psutil

# A killed process is gone in moments. One that takes longer hangs in the kernel: waiting on would
# not help.
GROUP_END_DEADLINE_S = 10
SIGNAL_EXIT_BASE = 128
_POLL_S = 0.01
# Between two looks at the memory of tasks. A look costs some 5 µs for each process of the machine.
_LOOK_EVERY_S: Final = 0.25
_KIB: Final = 1024
_PROC: Final = Path("/proc")


def inherited_environment() -> dict[str, str]:
    """What a child gets of this process's environment: nothing that names an account."""
    names = ("PATH", "HOME", "LANG", "TMPDIR")
    return {name: os.environ[name] for name in names if name in os.environ}


def wait_until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Poll until the condition holds; whether it did within the limit."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


class _Guard:
    """A process that kills a group when this process has ended without dismissing it.

    A group that is stopped would notice nothing.
    """

    def __init__(self, group: int) -> None:
        reads, self._writes = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", 'read -r _ || kill -s KILL -- "-$1"', "guard", str(group)],
                stdin=reads,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(reads)

    def dismiss(self) -> None:
        with suppress(BrokenPipeError):
            os.write(self._writes, b"\n")
        os.close(self._writes)
        self._process.wait()


class ProcessGroup:
    """A command and every process that it starts."""

    def __init__(
        self,
        command: list[str],
        *,
        cwd: Path,
        environment: dict[str, str],
        log: Path,
        files: Collection[int] = (),
    ) -> None:
        """Start the command; its output is appended to `log`, and it inherits the open `files`.

        Raises:
            OSError: the command cannot be started.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=files,
            )
        self._guard = _Guard(self._process.pid)
        self._lock = Lock()
        self._ended = False
        self._killer: Timer | None = None

    @property
    def pid(self) -> int:
        """The process id of the command, which is also the id of its group."""
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole group. Does nothing once the group has ended."""
        with self._lock:
            if not self._ended:
                self._signal(number)

    def ask_to_end(self, limit_s: float) -> None:
        """Send SIGTERM to the command alone, and SIGKILL to all after the limit.

        A container's first process is asked so.
        """
        self._process.terminate()
        with self._lock:
            if not self._ended:
                self._killer = Timer(limit_s, self.send, [signal.SIGKILL])
                self._killer.daemon = True
                self._killer.start()

    def wait(self) -> int:
        """Wait for the command, then kill the rest of its group, as a container does.

        Only one thread may call this.

        Returns:
            the exit code of the command as containers report it: 128 + n after the signal n.
        """
        code = self._process.wait()
        with self._lock:
            self._signal(signal.SIGKILL)
            wait_until(lambda: not self._alive(), GROUP_END_DEADLINE_S)
            self._ended = True
        if self._killer is not None:
            self._killer.cancel()
        self._guard.dismiss()
        return code if code >= 0 else SIGNAL_EXIT_BASE - code

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            # The group is empty. (macOS reports EPERM when only zombies are left.)
            return

    def _alive(self) -> bool:
        # A zombie that is never reaped stays a member of the group, but runs nothing.
        members = _processes(os.getpgid, {self.pid})[self.pid]
        return any(each.status() != psutil.STATUS_ZOMBIE for each in members)


@dataclass
class _Limit:
    bytes: int
    reached: bool = False


class MemoryLimits:
    """Limits the memory of tasks, as a container's control group does on Fargate.

    A control group of one's own needs rights that a user of a machine rarely has. So the processes
    of each task are looked at a few times a second. Once they hold more than their limit, the
    largest is killed, which is what the kernel does in a container. A task that takes a gigabyte in
    less time than between two looks has it for so long.
    """

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
                self._changed.wait_for(lambda: self._closed, _LOOK_EVERY_S)
                if self._closed:
                    return
                # Under the lock: a session whose limit is lifted may be another's soon after.
                for session, processes in _processes(os.getsid, set(self._limits)).items():
                    self._hold(self._limits[session], processes)

    @staticmethod
    def _hold(limit: _Limit, processes: list[psutil.Process]) -> None:
        # Two steps, because the exact figure costs a walk over all pages of a process.
        for measure in (_resident, _charged):
            used = {process: measure(process) for process in processes}
            if sum(used.values()) <= limit.bytes:
                return
        limit.reached = True
        with suppress(psutil.NoSuchProcess):
            max(processes, key=lambda process: used[process]).kill()


def _processes(
    id_of: Callable[[int], int], wanted: Collection[int]
) -> dict[int, list[psutil.Process]]:
    """Processes by their group or session. A program may leave its group, as Spark's do."""
    found = defaultdict(list)
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if (id_ := id_of(pid)) in wanted:
                found[id_].append(psutil.Process(pid))
    return found


def _resident(process: psutil.Process) -> int:
    """At least what a process is charged with, in bytes."""
    with suppress(psutil.Error):  # it has ended
        return int(process.memory_info().rss)
    return 0


def _charged(process: psutil.Process) -> int:
    """What the kernel could not take back, in bytes: anonymous and shared memory, once in all.

    Files that are mapped do not count. Where the system does not tell (macOS), all counts.
    """
    if not _PROC.exists():
        return _resident(process)
    try:
        lines = (_PROC / str(process.pid) / "smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    sizes = dict(line.split()[:2] for line in lines[1:])
    return _KIB * sum(int(sizes.get(name, 0)) for name in ("Pss_Anon:", "Pss_Shmem:"))
