"""Who may see the page and press its buttons: the person who has the link that the command printed, in their own browser, and nobody else.

What it holds off, all of which a browser would otherwise carry to a server on loopback:
    another site that posts here                    the token of each form, and the Origin
    a name that is made to lead here (rebinding)    the Host
    another program's page on another port          the Origin, and Sec-Fetch-Site (a cookie knows no ports: its name has ours)
    another user of this machine                    the token of the link, then a cookie
"""

from dataclasses import dataclass, field
from hmac import compare_digest
from secrets import token_urlsafe

from werkzeug.exceptions import Forbidden, HTTPException, MisdirectedRequest
from werkzeug.wrappers import Request, Response

_SECRET_BYTES = 32

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not no-referrer: browsers then send `Origin: null` with a form, and a form of ours could not be told from another's. Nobody else is told a referrer.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def _secret() -> str:
    return token_urlsafe(_SECRET_BYTES)


@dataclass(frozen=True)
class Guard:
    """Of one server. `token` is in the link, `session` in the cookie, `form_token` in each form."""

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
        """Raises MisdirectedRequest for any name but this machine's own."""
        if request.environ.get("HTTP_HOST") not in (f"127.0.0.1:{self.port}", f"localhost:{self.port}"):
            raise MisdirectedRequest("This server answers to 127.0.0.1 and localhost, with its port.")

    def is_entry(self, request: Request) -> bool:
        """Whether this is the link that the command printed.

        Raises:
            Forbidden: it is another's.
        """
        if request.method != "GET" or request.path != "/" or "token" not in request.args:
            return False
        if not _same(request.args["token"], self.token):
            raise Forbidden("This link is not of the console that runs now: open the one that it printed.")
        return True

    def let_in(self, response: Response) -> None:
        response.set_cookie(self._cookie, self.session, httponly=True, samesite="Strict")

    def check(self, request: Request) -> None:
        """Raises Forbidden for whoever has not come through the link, or posts what is no form of ours."""
        if not _same(request.cookies.get(self._cookie, ""), self.session):
            raise Forbidden("Open the link that `longhaul console` printed; it has the token that this page asks for.")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise Forbidden("Another page has sent you here: open this one by yourself.")
        if request.method in ("GET", "HEAD"):
            return
        if request.headers.get("Origin") != f"http://{request.environ['HTTP_HOST']}":
            raise Forbidden("This form is of another page.")
        if not _same(request.form.get("form_token", ""), self.form_token):
            raise Forbidden("This form is out of date: go back, load the page again and send it once more.")


def secured(response: Response) -> Response:
    response.headers.update(HEADERS)
    return response


def refused(error: HTTPException) -> Response:
    """In plain words: nothing of the request is in it."""
    answer = Response(f"{error.code} {error.name}\n\n{error.description}\n", error.code, mimetype="text/plain")
    for name, value in error.get_headers():
        if name == "Allow":
            answer.headers[name] = value
    return answer


def _same(given: str, ours: str) -> bool:
    """In constant time; bytes, because texts may hold anything."""
    return compare_digest(given.encode("utf-8", "surrogatepass"), ours.encode())
