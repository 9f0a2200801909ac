"""Servers on this machine: small ones of a test's own, and moto's, with repairs or without."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from moto.moto_api._internal.models import moto_api_backend
from moto.server import ThreadedMotoServer

from longhaul.local.moto_repairs.patching import Patches


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """The URL of a server that answers each GET and HEAD so."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)

        def do_HEAD(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def repaired(*repairs: Callable[[Patches], None]) -> Iterator[Patches]:
    """Moto with these repairs."""
    patches = Patches()
    for repair in repairs:
        repair(patches)
    try:
        yield patches
    finally:
        patches.undo()


@contextmanager
def moto_server() -> Iterator[str]:
    """The endpoint of a server of moto's, which begins and ends without any state."""
    moto_api_backend.reset()  # other tests of this process use it too
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        moto_api_backend.reset()
