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

# No one can make an address resolve to another place, nor register a name below `localhost`.
_NOBODYS = re.compile(r"(\d+(\.\d+){3}|([a-z0-9_-][a-z0-9._-]*\.)?localhost)(:\d+)?", re.ASCII)
_MARKS = ("Origin", "Sec-Fetch-Site")
# Every browser's user agent begins with it.
_BROWSER = "Mozilla/"
# As the Authorization of a signed request begins. (A link may carry a password: "Basic".)
_SIGNED = "AWS4-HMAC-SHA256 "
# A larger body of a refused request is not read; its sender may then see a broken connection.
_DRAINED_BYTES = 64 * 1024


class GuardedHandler(BaseHTTPRequestHandler):
    """Refuses requests of browsers before anything else looks at them."""

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        reason = refusal(self.headers)
        if reason is None:
            return True
        length = self.headers.get("Content-Length", "")
        if length.isdecimal():
            self.rfile.read(min(int(length), _DRAINED_BYTES))
        self.send_error(HTTPStatus.FORBIDDEN, reason)
        return False


def refusal(headers: Message) -> str | None:
    """Why a request with these headers is refused; None if it is not."""
    hosts = headers.get_all("Host", [])
    if len(hosts) != 1 or not _NOBODYS.fullmatch(hosts[0].lower()):
        return "Host: this service has another name"
    for mark in _MARKS:
        if mark in headers:
            return f"{mark}: a browser sent this request"
    is_signed = headers.get("Authorization", "").startswith(_SIGNED)
    if not is_signed and headers.get("User-Agent", "").startswith(_BROWSER):
        return "User-Agent: a browser sent this request"
    return None
