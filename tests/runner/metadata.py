"""ECS's metadata endpoint, for a small task."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ARN = "arn:task/1"
DESCRIPTION = json.dumps({"TaskARN": ARN, "Limits": {"CPU": 2, "Memory": 1024}}).encode()


@contextmanager
def metadata_endpoint(*errors: int) -> Iterator[str]:
    """Its URL. It answers with these status codes in turn, and then describes the task."""
    left = list(errors)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = (left.pop(0), b"not yet") if left else (200, DESCRIPTION)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
