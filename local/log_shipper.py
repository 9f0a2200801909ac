"""The tasks' logs in CloudWatch Logs, as the `awslogs` driver puts them there: one event a line.

The files under the work directory stay what a person on this machine reads; this is for whoever asks the API, as they would in an account.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread

from moto.logs.models import LogsBackend, logs_backends

# Sooner than anyone who follows a log asks again.
_PERIOD_S = 0.25


@dataclass
class _Followed:
    path: Path
    group: str
    stream: str
    position: int = 0
    rest: bytes = b""


class LogShipper:
    """Follows files and puts what they gain into moto's log streams."""

    def __init__(self, account: str, region: str) -> None:
        self._backend: LogsBackend = logs_backends[account][region]
        self._lock = Lock()
        self._followed: dict[Path, _Followed] = {}
        self._closing = Event()
        self._thread = Thread(target=self._run, name="log-shipper", daemon=True)
        self._thread.start()

    @contextmanager
    def following(self, path: Path, group: str | None, stream: str) -> Iterator[None]:
        """Ship what the file holds and gains, and in the end all of it; it may not exist yet. The stream is made, and its group if the template made none. No group: nothing."""
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
                gained = file.read()
        except FileNotFoundError:
            return
        followed.position += len(gained)
        *lines, followed.rest = (followed.rest + gained).split(b"\n")
        if last and followed.rest:
            lines.append(followed.rest)
        now = round(time.time() * 1000)
        events = [{"timestamp": now, "message": line.decode(errors="replace")} for line in lines if line]
        if events:
            self._backend.put_log_events(followed.group, followed.stream, events)
