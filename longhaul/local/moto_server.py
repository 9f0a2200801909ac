"""moto's HTTP server, in threads of this process."""

import logging
import socket
from collections.abc import Callable
from functools import lru_cache
from threading import Thread
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.exceptions import NotFound
from werkzeug.serving import make_server
from werkzeug.wrappers import Response

from longhaul.local.running import LOOPBACK
from longhaul.local.state.store import cannot_write
from longhaul.local.web_guard import GuardedHandler

LOG = logging.getLogger(__name__)

# Two hundred executions may connect at the same moment.
BACKLOG = 256
# A stop is noticed within this time. Ten checks a second have no measurable cost.
STOP_POLL_S = 0.1

Metadata = Callable[[str], str | None]
"""What ECS's metadata endpoint says to a path."""


class _Handler(GuardedHandler, MotoRequestHandler):
    """moto lets every web page in (CORS). Here none gets as far as moto."""


class _Dispatcher(DomainDispatcherApplication):
    """Remembers which service a host names, and serves nothing but AWS.

    Stock moto lists its own folders at each request, with a lock held. Each of these system calls
    gives the interpreter to another thread, so with many clients a request took most of a second.
    """

    def __init__(self, metadata: Metadata) -> None:
        super().__init__(create_backend_app)
        self._metadata = metadata
        self._is_said = False
        self.get_backend_for_host = lru_cache(maxsize=256)(super().get_backend_for_host)  # type: ignore[method-assign]

    def get_application(self, environ: dict[str, Any]) -> Any:  # noqa: ANN401 - a WSGI application
        # moto's own interface: it resets all services, seeds their ids, and writes files.
        if environ["PATH_INFO"].startswith("/moto-api"):
            return NotFound()
        # No bucket has so short a name.
        if environ["PATH_INFO"].startswith("/v4/"):
            said = self._metadata(environ["PATH_INFO"])
            return NotFound() if said is None else Response(said, mimetype="application/json")
        return super().get_application(environ)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:  # noqa: ANN401 - WSGI
        """Serve a request. One that the disk does not let be kept is said, also to its client."""
        try:
            return super().__call__(environ, start_response)
        except Exception as error:
            if not cannot_write(error):
                raise
            said = (
                f"the embedded AWS cannot keep what is sent to it ({error}): make room on its disk"
            )
            # Clients try again and again. A line for each would hide what else is said.
            if not self._is_said:
                self._is_said = True
                LOG.warning("%s", said)
            # Clients try again, as after each failure of a service.
            return Response(said, 500, mimetype="text/plain")(environ, start_response)


class MotoServer:
    def __init__(
        self,
        port: int,
        host: str = LOOPBACK,
        around: Callable[[Any], Any] = lambda app: app,
        metadata: Metadata = lambda _: None,
    ) -> None:
        """Start to serve.

        Args:
            port: 0 picks a free one.
            host: the address to listen on.
            around: returns the application that requests meet first.
            metadata: of the tasks.

        Raises:
            OSError: the port is taken. (moto's own server would wait forever.)
        """
        # werkzeug logs every request, and the interpreter every error that a Catch handles.
        for noisy in ("werkzeug", "moto.stepfunctions"):
            logging.getLogger(noisy).setLevel(logging.CRITICAL)
        with socket.create_server((host, port), backlog=BACKLOG) as listening:
            self.port: int = listening.getsockname()[1]
            make: Any = make_server  # its declared type lacks `block_on_close`
            self._server = make(
                host,
                self.port,
                around(_Dispatcher(metadata)),
                threaded=True,
                request_handler=_Handler,
                fd=listening.fileno(),
            )
        # Otherwise a connection that a client keeps open would delay the stop.
        self._server.block_on_close = False
        self._thread = Thread(
            target=self._server.serve_forever, args=(STOP_POLL_S,), name="moto", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
