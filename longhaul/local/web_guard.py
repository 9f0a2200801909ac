"""Keeps browsers away from services that run commands of any client.

A page of any site can make the browser send requests to this machine. A browser marks them, and a
page cannot change the marks. They do not tell a page from a person: a link that a person types may
be of a page that redirects it here. So every browser is refused.

    what a page tries                               what gives it away
    fetch, a form (any method but GET and HEAD)     Origin
    an image, a script, a link, a frame, a          Sec-Fetch-Site, whatever it says
    redirect
    the same, to an address that is not loopback    a browser that names no site: browsers send
                                                    Sec-Fetch-Site to HTTPS and loopback alone
    a name of its own that resolves to this         Host (DNS rebinding)
    machine

AWS clients send none of these marks, and their Host is the one of the endpoint. boto3 puts a bucket
before it (`bucket.localhost`) where it is told to. It sends no name of AWS to an endpoint. One
client calls itself a browser (Celery's, on pycurl), but it signs its requests. A page can sign none
without an Origin.
"""

import re
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address

_HTTP_PORT = 80
# The names below `localhost` are nobody's to register, so none can be made to resolve to a page.
_LOOPBACK_NAMES = re.compile(r"([a-z0-9_-][a-z0-9._-]*\.)?localhost")
# Every browser's user agent begins with it.
_BROWSER = "Mozilla/"
# As the Authorization of a signed request begins. (A link may carry a password: "Basic".)
_SIGNED = "AWS4-HMAC-SHA256 "
# A larger body of a refused request is not read; its sender may then see a broken connection.
_DRAINED_BYTES = 64 * 1024

_HEADERS = {
    # An object may hold HTML. As a page of this origin its scripts would be let in.
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class GuardedHandler(BaseHTTPRequestHandler):
    """Refuses requests of browsers before anything else looks at them.

    Responses carry no permission for other origins (CORS), whatever the service says.
    """

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        reason = refusal(self.headers, self.server.server_address)  # type: ignore[arg-type]
        if reason is None:
            return True
        self._refuse(reason)
        return False

    def send_response(self, code: int, message: str | None = None) -> None:
        super().send_response(code, message)
        for name, value in _HEADERS.items():
            self.send_header(name, value)

    def send_header(self, keyword: str, value: str) -> None:
        if not keyword.lower().startswith("access-control-"):
            super().send_header(keyword, value)

    def _refuse(self, reason: str) -> None:
        length = self.headers.get("Content-Length", "")
        if length.isdecimal():
            self.rfile.read(min(int(length), _DRAINED_BYTES))
        body = f"{reason}\n".encode()
        self.close_connection = True
        self.send_response(HTTPStatus.FORBIDDEN)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def refusal(headers: Message, address: tuple[str, int]) -> str | None:
    """Why a request is refused; None if it is not.

    Args:
        headers: of the request.
        address: the address and port that the server listens on.
    """
    hosts = headers.get_all("Host", [])
    if len(hosts) != 1 or not is_own_host(hosts[0], address):
        return "Host: this service has another name."
    if "Origin" in headers:
        return "Origin: a web page sent this request."
    if "Sec-Fetch-Site" in headers:
        return "Sec-Fetch-Site: a browser sent this request."
    is_signed = headers.get("Authorization", "").startswith(_SIGNED)
    if not is_signed and headers.get("User-Agent", "").startswith(_BROWSER):
        return "User-Agent: a browser sent this request."
    return None


def is_own_host(host: str, address: tuple[str, int]) -> bool:
    """Whether a Host header names the server that listens on the address and port."""
    own, port = address[:2]
    name, colon, given_port = host.lower().partition(":")
    # Clients leave out the port of HTTP.
    if given_port != str(port) and (colon or port != _HTTP_PORT):
        return False
    return name == own or (
        ip_address(own).is_loopback and _LOOPBACK_NAMES.fullmatch(name) is not None
    )
