"""Worker processes that are started again when they end, as a service manager does."""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from longhaul.local.processes import ProcessGroup

_STARTED_AGAIN_AFTER_S = 1


class Pool:
    """So many processes of one command. They end with this process, however it ends."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], size: int, log: Path
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._log = log
        self._closing = Event()
        self._groups: list[ProcessGroup] = [self._start() for _ in range(size)]
        self._keepers = [Thread(target=self._keep, args=(n,)) for n in range(size)]
        for keeper in self._keepers:
            keeper.start()

    def close(self) -> None:
        self._closing.set()
        for group in self._groups:
            group.send(signal.SIGKILL)
        for keeper in self._keepers:
            keeper.join()

    def _keep(self, n: int) -> None:
        while True:
            self._groups[n].wait()
            if self._closing.wait(_STARTED_AGAIN_AFTER_S):
                return
            self._groups[n] = self._start()
            if self._closing.is_set():
                self._groups[n].send(signal.SIGKILL)

    def _start(self) -> ProcessGroup:
        return ProcessGroup(
            self._command, cwd=self._log.parent, environment=self._environment, log=self._log
        )


def kill_group(pid: int) -> None:
    """SIGKILL for the process and all that it started, as when its machine is lost."""
    with suppress(ProcessLookupError):
        os.killpg(os.getpgid(pid), signal.SIGKILL)
