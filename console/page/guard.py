"""Lets in one browser: that of the person who has the link that the command printed.

A browser would carry all of these attacks to a server on loopback:

    attack                                      defence
    a form on another site that posts here      the form's token, and Origin
    a foreign name that resolves to loopback    Host (DNS rebinding)
    a page on another port of this machine      Origin, Sec-Fetch-Site, the port in the cookie's
                                                name (a cookie does not know ports)
    another user of this machine                the link's token, then the cookie
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


def _secret() -> str:
    return token_urlsafe(_SECRET_BYTES)


@dataclass(frozen=True)
class Guard:
    """The secrets of one server: `token` of the link, `session` of the cookie, `form_token`."""

    port: int
    token: str = field(default_factory=_secret, repr=False)
    session: str = field(default_factory=_secret, repr=False)
    form_token: str = field(default_factory=_secret, repr=False)

    @property
    def link(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    @property
    def _cookie(self) -> str:
        return f"longhaul-console-{self.port}"

    def check_host(self, request: Request) -> None:
        """Raises MisdirectedRequest for a Host that is not loopback."""
        if request.environ.get("HTTP_HOST") not in (
            f"127.0.0.1:{self.port}",
            f"localhost:{self.port}",
        ):
            raise MisdirectedRequest(
                "This server is reached as 127.0.0.1 or localhost, with its port."
            )

    def is_entry(self, request: Request) -> bool:
        """Whether the request comes from the link that the command printed.

        Raises:
            Forbidden: the token is another one.
        """
        if request.method != "GET" or request.path != "/" or "token" not in request.args:
            return False
        if not _same(request.args["token"], self.token):
            raise Forbidden("This link is of an earlier console: open the one that is printed now.")
        return True

    def let_in(self, response: Response) -> None:
        response.set_cookie(self._cookie, self.session, httponly=True, samesite="Strict")

    def check(self, request: Request) -> None:
        """Raises Forbidden for a browser that never opened the link, or a form of another page."""
        if not _same(request.cookies.get(self._cookie, ""), self.session):
            raise Forbidden(
                "Open the link that `longhaul console` printed: it has the token for this page."
            )
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise Forbidden("Another page sent this request: open this page directly.")
        if request.method in ("GET", "HEAD"):
            return
        if request.headers.get("Origin") != f"http://{request.environ['HTTP_HOST']}":
            raise Forbidden("This form is of another page.")
        if not _same(request.form.get("form_token", ""), self.form_token):
            raise Forbidden(
                "This form is out of date: go back, load the page again and send it once more."
            )


def secured(response: Response) -> Response:
    response.headers.update(HEADERS)
    return response


def refused(error: HTTPException) -> Response:
    """The error as plain text, without anything from the request."""
    response = Response(
        f"{error.code} {error.name}\n\n{error.description}\n", error.code, mimetype="text/plain"
    )
    for name, value in error.get_headers():
        if name == "Allow":
            response.headers[name] = value
    return response


def _same(given: str, ours: str) -> bool:
    """Compare in constant time; as bytes, because `compare_digest` takes no other text."""
    return compare_digest(given.encode("utf-8", "surrogatepass"), ours.encode())
