"""The page's server, on loopback."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from longhaul.cli.errors import CommandError
from longhaul.cli.page.app import Page
from longhaul.cli.page.guard import Guard
from longhaul.cli.target import Target

LOOPBACK = "127.0.0.1"


class _Handler(WSGIRequestHandler):
    """Logs no requests: a log would hold the secret."""

    timeout = 60  # seconds that a silent connection can hold a thread

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        del code, size

    def version_string(self) -> str:
        return "longhaul"


@contextmanager
def serving(target: Target, port: int) -> Iterator[tuple[BaseWSGIServer, Guard]]:
    """A server that listens, and does not serve yet. Port 0 is any free port.

    Raises:
        CommandError: the port is taken; or an error of the target, which is looked up before the
            first request.
    """
    with _listening(port) as listener:
        guard = Guard(listener.getsockname()[1])
        server = make_server(
            LOOPBACK,
            guard.port,
            Page(target, guard),
            threaded=True,
            request_handler=_Handler,
            fd=listener.fileno(),
        )
        try:
            yield server, guard
        finally:
            server.server_close()


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise CommandError(
            f"cannot listen on port {port} ({os.strerror(error.errno or 0)}); "
            "`--port 0` picks a free one"
        ) from error
