"""Child processes that end with all their descendants.

Each child leads a session and a process group of its own. The group is killed when the child ends,
and when this process ends, however it does.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock

import psutil

from longhaul.local.private_files import UMASK, private

# A killed process is gone in moments. One that takes longer hangs in the kernel: waiting on would
# not help.
GROUP_END_DEADLINE_S = 10
SIGNAL_EXIT_BASE = 128
_POLL_S = 0.01


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
        self, command: list[str], *, cwd: Path, environment: dict[str, str], log: Path
    ) -> None:
        """Start the command; its output is appended to `log`.

        Only this user can read the log and what the command writes.

        Raises:
            OSError: the command cannot be started, or the log is a symbolic link.
        """
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(log, "ab", opener=private) as output:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=UMASK,
            )
        self._guard = _Guard(self._process.pid)
        self._lock = Lock()
        self._ended = False

    @property
    def pid(self) -> int:
        """The process id of the command, which is also the id of its group."""
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole group. Does nothing once the group has ended."""
        with self._lock:
            if not self._ended:
                self._signal(number)

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
        self._guard.dismiss()
        return code if code >= 0 else SIGNAL_EXIT_BASE - code

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            # The group is empty. (macOS reports EPERM when only zombies are left.)
            return

    def _alive(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        # A zombie that is never reaped stays a member of the group, but runs nothing.
        return any(_runs_in_group(process, self.pid) for process in psutil.process_iter())


def _runs_in_group(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
        return False
