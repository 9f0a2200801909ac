"""Small HTTP services on loopback."""

import socket
import sys
from contextlib import suppress
from http.server import ThreadingHTTPServer
from threading import Thread
from typing import Any

from longhaul.local.web_guard import GuardedHandler

LOOPBACK = "127.0.0.1"


class QuietHandler(GuardedHandler):
    """HTTP/1.1 with persistent connections, no log, and no web page as a client."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        del format, args

    def respond(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | (headers or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A connection ends with the child process that opened it. Closing must not wait for that.
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the base class's types
        """Ignore a child process that was killed in the middle of a request."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class HttpService:
    """A handler on a free port, in a thread that sleeps until a connection comes."""

    def __init__(self, handler: type[QuietHandler]) -> None:
        self._server = _Server((LOOPBACK, 0), handler)
        self.address = f"{LOOPBACK}:{self._server.server_port}"
        self._closed = False
        self._thread = Thread(target=self._serve, name=f"http-{self.address}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        # The connection wakes the thread, unless another one has.
        with suppress(ConnectionError):
            socket.create_connection((LOOPBACK, self._server.server_port)).close()
        self._thread.join()

    def _serve(self) -> None:
        with self._server:
            while not self._closed:
                self._server.handle_request()
