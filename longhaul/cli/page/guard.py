"""Lets in the person who has the link that the command printed.

Every address of the page begins with a secret, and nothing else lets in. A cookie would not do:
cookies know no ports, so the browser would hand it to a server of another user on this machine.

    attack                                      defence
    another user of this machine                the secret
    a page of another site or port              the secret, and Origin where something is done
    a foreign name that resolves to loopback    the secret, and Host (DNS rebinding)

The browser tells the address to no other origin: no page links elsewhere, and Referrer-Policy keeps
it in.
"""

from dataclasses import dataclass, field
from hmac import compare_digest
from secrets import token_urlsafe

from werkzeug.exceptions import Forbidden, HTTPException, MisdirectedRequest
from werkzeug.wrappers import Request, Response

_SECRET_BYTES = 32

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not no-referrer: browsers then send `Origin: null` with our forms, which looks like another
    # site's form. Other sites get no referrer with this one either.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class Guard:
    """What one server accepts."""

    port: int
    secret: str = field(default_factory=lambda: token_urlsafe(_SECRET_BYTES), repr=False)

    @property
    def root(self) -> str:
        """The beginning of every path."""
        return f"/{self.secret}"

    @property
    def link(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.root}/"

    def check(self, request: Request) -> None:
        """Let in a request of this page alone.

        Raises:
            MisdirectedRequest: its Host is not loopback.
            Forbidden: its path lacks the secret, or a form is of another page.
        """
        if request.environ.get("HTTP_HOST") not in (
            f"127.0.0.1:{self.port}",
            f"localhost:{self.port}",
        ):
            raise MisdirectedRequest(
                "This server is reached as 127.0.0.1 or localhost, with its port."
            )
        root = f"{self.root}/"
        if not _same(request.path[: len(root)], root):
            raise Forbidden("Open the link that `longhaul console` prints now, whole.")
        is_read = request.method in ("GET", "HEAD")
        if (
            not is_read
            and request.headers.get("Origin") != f"http://{request.environ['HTTP_HOST']}"
        ):
            raise Forbidden("This form is of another page.")


def secured(response: Response) -> Response:
    response.headers.update(HEADERS)
    return response


def refused(error: HTTPException, page: str | None = None) -> Response:
    """The error as a page; without one as plain text, which tells nothing of the secret."""
    return Response(
        page or f"{error.code} {error.name}\n\n{error.description}\n",
        error.code,
        [(name, value) for name, value in error.get_headers() if name == "Allow"],
        mimetype="text/html" if page else "text/plain",
    )


def _same(given: str, ours: str) -> bool:
    """Compare in constant time; as bytes, because `compare_digest` takes no other text."""
    return compare_digest(given.encode("utf-8", "surrogatepass"), ours.encode())
