"""moto's HTTP server, in threads of this process."""

import logging
import socket
from threading import Thread
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from local.http_services import LOOPBACK

# Clients of two hundred executions may connect at the same moment.
BACKLOG = 256
# How long a stop may take to be noticed; ten looks a second cost nothing that could be measured.
STOP_POLL_S = 0.1


class MotoServer:
    def __init__(self, port: int, host: str = LOOPBACK) -> None:
        """Serve at once.

        Raises:
            OSError: the port is taken. (moto's own server would exit a thread and wait for ever.)
        """
        # werkzeug logs each request, and the interpreter each error that a Catch then handles.
        for noisy in ("werkzeug", "moto.stepfunctions"):
            logging.getLogger(noisy).setLevel(logging.CRITICAL)
        with socket.create_server((host, port), backlog=BACKLOG) as listening:
            self.port: int = listening.getsockname()[1]
            make: Any = make_server  # typed by a base class that lacks `block_on_close`
            self._server = make(
                host,
                self.port,
                DomainDispatcherApplication(create_backend_app),
                threaded=True,
                request_handler=MotoRequestHandler,
                fd=listening.fileno(),
            )
        # Connections that clients keep open must not hold up the end.
        self._server.block_on_close = False
        self._thread = Thread(target=self._server.serve_forever, args=(STOP_POLL_S,), name="moto", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
