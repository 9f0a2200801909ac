"""Small HTTP services on loopback, behind one thread that sleeps until a connection comes."""

import os
import selectors
import sys
from contextlib import suppress
from http.server import ThreadingHTTPServer
from threading import Lock, Thread
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


class HttpServices:
    """Any number of services, each on a port of its own."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._lock = Lock()
        self._servers: set[_Server] = set()
        self._closing: set[_Server] = set()
        self._closed = False
        self._thread = Thread(target=self._serve, name="http-services", daemon=True)
        self._thread.start()

    def open(self, handler: type[QuietHandler]) -> "HttpService":
        """Serve `handler` on a free port."""
        server = _Server((LOOPBACK, 0), handler)
        with self._lock:
            self._servers.add(server)
            self._selector.register(server, selectors.EVENT_READ)
        self._wake()
        return HttpService(self, server)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._closing |= self._servers
        self._wake()
        self._thread.join()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def close_one(self, server: _Server) -> None:
        with self._lock:
            if self._closed or server not in self._servers:
                return
            self._closing.add(server)
        self._wake()

    def _wake(self) -> None:
        os.write(self._wake_write, b"x")

    def _serve(self) -> None:
        while not self._closed or self._closing:
            for key, _ in self._selector.select():
                if isinstance(key.fileobj, _Server):
                    # The client may be gone already. The next connection is served as usual.
                    with suppress(OSError):
                        key.fileobj.handle_request()
                else:
                    os.read(self._wake_read, 4096)
            with self._lock:
                for server in self._closing:
                    self._selector.unregister(server)
                    server.server_close()
                self._servers -= self._closing
                self._closing.clear()


class HttpService:
    def __init__(self, services: HttpServices, server: _Server) -> None:
        self._services = services
        self._server = server
        self.address = f"{LOOPBACK}:{server.server_address[1]}"

    def close(self) -> None:
        self._services.close_one(self._server)
