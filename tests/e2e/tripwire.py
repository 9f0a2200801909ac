"""Kills the process that makes a certain call to the embedded AWS.

Either before the call takes effect, or after it and before the answer.
"""

import io
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import psutil

from longhaul.local.cloud import EmbeddedAws

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
        trap = self._trap_for(operation, environ)
        if trap is None:
            answer = self._app(environ, start_response)
            if operation == "TransactWriteItems":
                answer = list(answer)
                self._after_each_transaction()
            return answer
        caller = self._caller_in(trap, int(environ["REMOTE_PORT"]))
        if caller is not None:
            if trap.after:
                for _ in self._app(environ, lambda *_, **__: None):
                    pass
            with suppress(psutil.NoSuchProcess):  # it gave up in the meantime: as good as killed
                caller.kill()
            trap.sprung.set()
        start_response("503 Service Unavailable", [("Content-Length", "0")])
        return []

    def _trap_for(self, operation: str, environ: Environ) -> Trap | None:
        with self._lock:
            laid = [trap for trap in self._traps if trap.operation == operation]
        if not laid:
            return None
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        return next(
            (trap for trap in laid if all(word.encode() in body for word in trap.words)), None
        )

    def _caller_in(self, trap: Trap, port: int) -> psutil.Process | None:
        """The process to kill, from whose call on the trap is no longer laid.

        None if the trap stays: the caller hung up before it was heard, or another call was faster.
        Asked before the call takes effect, since a caller may give up while a busy machine serves
        it: its next try would find the work done, and nothing would spring.
        """
        with self._lock:
            caller = _child_with(port) if trap in self._traps else None
            if caller is not None:
                self._traps.remove(trap)
            return caller


def _child_with(port: int) -> psutil.Process | None:
    """The child process that uses this local port."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if any(
                connection.laddr.port == port
                for connection in child.net_connections("tcp4")
                if connection.laddr
            ):
                return child
    return None
