"""Kills the process that makes a certain call to the embedded AWS.

Either before the call takes effect, or after it and before the answer.
"""

import io
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import psutil

from embedded.cloud import EmbeddedAws

Environ = dict[str, Any]
StartResponse = Callable[..., Any]


@dataclass
class Trap:
    """Springs once, at the first call of the operation whose body has all the words."""

    operation: str
    words: tuple[str, ...]
    after: bool
    sprung: threading.Event = field(default_factory=threading.Event)


class Tripwire:
    """Around the WSGI application of a running embedded AWS, for as long as the block lasts."""

    def __init__(
        self, aws: EmbeddedAws, after_each_transaction: Callable[[], None] = lambda: None
    ) -> None:
        self._server: Any = aws._server._server
        self._after_each_transaction = after_each_transaction
        self._lock = threading.Lock()
        self._traps: list[Trap] = []

    def __enter__(self) -> Self:
        self._app = self._server.app
        self._server.app = self._serve
        return self

    def __exit__(self, *_: object) -> None:
        self._server.app = self._app

    def lay(self, operation: str, *words: str, after: bool) -> Trap:
        trap = Trap(operation, words, after)
        with self._lock:
            self._traps.append(trap)
        return trap

    def _serve(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        trap = self._sprung_by(operation, environ)
        if trap is None:
            answer = self._app(environ, start_response)
            if operation == "TransactWriteItems":
                answer = list(answer)
                self._after_each_transaction()
            return answer
        if trap.after:
            for _ in self._app(environ, lambda *_, **__: None):
                pass
        if _kill_the_owner_of(int(environ["REMOTE_PORT"])):
            trap.sprung.set()
        else:  # it has ended already, as at its timeout on a busy machine: the next one is killed
            with self._lock:
                self._traps.append(trap)
        start_response("503 Service Unavailable", [("Content-Length", "0")])
        return []

    def _sprung_by(self, operation: str, environ: Environ) -> Trap | None:
        with self._lock:
            laid = [trap for trap in self._traps if trap.operation == operation]
            if not laid:
                return None
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            environ["wsgi.input"] = io.BytesIO(body)
            for trap in laid:
                if all(word.encode() in body for word in trap.words):
                    self._traps.remove(trap)
                    return trap
        return None


def _kill_the_owner_of(port: int) -> bool:
    """SIGKILL to the child process that uses this local port; whether there is one."""
    for child in psutil.Process().children(recursive=True):
        try:
            if any(
                connection.laddr.port == port
                for connection in child.net_connections("tcp4")
                if connection.laddr
            ):
                child.kill()
                return True
        except psutil.NoSuchProcess:
            continue
    return False
