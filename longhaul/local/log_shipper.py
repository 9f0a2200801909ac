"""Copies logs of tasks and job runs to CloudWatch Logs, one event per line, as `awslogs` does.

People on this machine read the files; this is for clients of the API.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread

from moto.logs.models import LogsBackend, logs_backends

# Shorter than the pause between two requests of a client that follows a log.
_PERIOD_S = 0.25


@dataclass
class _Followed:
    path: Path
    group: str
    stream: str
    position: int = 0


class LogShipper:
    """Follows files and puts each new line into moto's log streams."""

    def __init__(self, account: str, region: str) -> None:
        self._backend: LogsBackend = logs_backends[account][region]
        self._lock = Lock()
        self._followed: dict[Path, _Followed] = {}
        self._closing = Event()
        self._thread = Thread(target=self._run, name="log-shipper", daemon=True)
        self._thread.start()

    @contextmanager
    def following(self, path: Path, group: str | None, stream: str) -> Iterator[None]:
        """Ship the file while the block runs; at its end, all of the file is shipped.

        The file need not exist yet. Stream and group are made if absent. Without a group, nothing
        is shipped.
        """
        if group is None:
            yield
            return
        followed = _Followed(path, group, stream)
        with self._lock:
            self._backend.ensure_log_group(group)
            self._backend.ensure_log_stream(group, stream)
            self._followed[path] = followed
        try:
            yield
        finally:
            with self._lock:
                del self._followed[path]
                self._ship(followed, last=True)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(_PERIOD_S):
            with self._lock:
                for followed in self._followed.values():
                    self._ship(followed, last=False)

    def _ship(self, followed: _Followed, *, last: bool) -> None:
        try:
            with followed.path.open("rb") as file:
                file.seek(followed.position)
                added = file.read()
        except FileNotFoundError:
            return
        # A line that is not whole yet comes next time.
        whole = added if last else added[: added.rfind(b"\n") + 1]
        followed.position += len(whole)
        now = round(time.time() * 1000)
        events = [
            {"timestamp": now, "message": line.decode(errors="replace")}
            for line in whole.split(b"\n")
            if line
        ]
        if events:
            self._backend.put_log_events(followed.group, followed.stream, events)
