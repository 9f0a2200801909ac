"""Child processes that end whole: each is started in a session of its own, and its process group ends with it."""

import os
import signal
import subprocess
import time
from pathlib import Path
from threading import Lock

import psutil

# After a SIGKILL the kernel needs moments; what takes longer hangs in the kernel, and waiting for ever would not help.
GROUP_END_DEADLINE_S = 10
SIGNAL_EXIT_BASE = 128


class ProcessGroup:
    """A command and everything it starts."""

    def __init__(self, command: list[str], *, cwd: Path, environment: dict[str, str], log: Path) -> None:
        """Start it, output appended to `log`.

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
            )
        self._lock = Lock()
        self._ended = False

    @property
    def pid(self) -> int:
        """Of the command, and of its group."""
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; nothing happens once it has ended."""
        with self._lock:
            if not self._ended:
                self._signal(number)

    def wait(self) -> int:
        """Wait until nothing of the group is left; as in a container, the end of the command is the end of the rest. To be called by one thread.

        Returns:
            the exit code of the command as containers report it: 128 + n after the signal n.
        """
        code = self._process.wait()
        with self._lock:
            self._signal(signal.SIGKILL)
            deadline = time.monotonic() + GROUP_END_DEADLINE_S
            while self._alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            self._ended = True
        return code if code >= 0 else SIGNAL_EXIT_BASE - code

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            # Nobody left in the group (macOS answers EPERM when only zombies are).
            return

    def _alive(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        # A zombie whose new parent never reaps it still counts as a member, but runs nothing.
        return any(_runs_in_group(process, self.pid) for process in psutil.process_iter())


def _runs_in_group(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
        return False
