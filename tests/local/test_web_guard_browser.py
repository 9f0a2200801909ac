"""What pages of other origins can do to the embedded AWS, in Debian's chromium, headless."""

import http.server
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from longhaul.local.cloud import EmbeddedAws
from tests.chromium import MARKS, chromium

pytestmark = MARKS

# A page of `evil.example` that has made its name resolve to this machine.
EVIL = "evil.example"
RESOLVE = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1, MAP *.localhost 127.0.0.1"
# Chromium's own defence, which other browsers lack, must not take the place of ours.
DEFENCELESS = "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"
HTML = b"<!doctype html><title>A page</title>"

FETCH = """async ([url, method, mode]) => {
    try {
        const response = await fetch(url, { method, mode });
        return `${response.type} ${response.status} ${await response.text()}`;
    } catch (error) { return "blocked"; }
}"""
FORM = """([url, method]) => new Promise(resolve => {
    const frame = document.createElement("iframe");
    frame.name = method + Math.random();
    document.body.append(frame);
    const form = document.createElement("form");
    Object.assign(form, { action: url, method, target: frame.name });
    document.body.append(form);
    frame.onload = resolve;
    form.submit();
})"""
IMAGE = """url => new Promise(resolve => {
    const image = new Image();
    image.onload = image.onerror = resolve;
    image.src = url;
})"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to?"))
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(HTML)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        del format, args


@pytest.fixture
def site() -> Iterator[int]:
    """The port of another site's server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(RESOLVE, DEFENCELESS) as found:
        yield found


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture
def port(aws: EmbeddedAws, client: Callable[[str], Any]) -> Iterator[int]:
    """The port of an embedded AWS with a queue, which a page must not be able to remove."""
    client("sqs").create_queue(QueueName="precious")
    client("s3").create_bucket(Bucket="data")
    found = urlsplit(aws.endpoint).port
    assert found is not None
    yield found
    assert len(client("sqs").list_queues()["QueueUrls"]) == 1
    assert [each["Name"] for each in client("s3").list_buckets()["Buckets"]] == ["data"]


@pytest.mark.parametrize("page_host", [EVIL, "127.0.0.1", "localhost"])
def test_a_page_of_another_origin_reaches_nothing(
    page: Any, site: int, port: int, page_host: str
) -> None:
    statuses: list[int] = []
    page.goto(f"http://{page_host}:{site}/")
    page.on("response", lambda response: statuses.append(response.status))
    for host in ("127.0.0.1", "localhost"):
        there = f"http://{host}:{port}"
        said = [
            page.evaluate(FETCH, [f"{there}/moto-api/reset", "POST", "no-cors"]),
            page.evaluate(FETCH, [f"{there}/moto-api/data.json", "GET", "cors"]),
            page.evaluate(FETCH, [f"{there}/bucket", "PUT", "cors"]),
        ]
        # Neither a status nor a body reaches the page.
        assert said == ["opaque 0 ", "blocked", "blocked"]
        page.evaluate(IMAGE, f"{there}/moto-api/data.json")
        for method in ("get", "post"):
            page.evaluate(FORM, [f"{there}/moto-api/reset", method])
    assert set(statuses) == {403}


def test_a_page_whose_name_resolves_to_this_machine_reaches_nothing(page: Any, port: int) -> None:
    here = f"http://{EVIL}:{port}"
    # The page was loaded while the name was still another machine's.
    page.route(f"{here}/page", lambda route: route.fulfill(body=HTML, content_type="text/html"))
    page.goto(f"{here}/page")
    for method, path in (("POST", "/moto-api/reset"), ("GET", "/moto-api/data.json")):
        said = page.evaluate(FETCH, [here + path, method, "same-origin"])
        assert said.startswith("basic 403 ")
        assert "Host: this service has another name" in said
    assert page.goto(f"{here}/moto-api/data.json").status == 403


def test_what_is_typed_and_redirected_reaches_nothing(page: Any, site: int, port: int) -> None:
    there = f"http://127.0.0.1:{port}/moto-api/seed"
    assert page.goto(there).status == 403
    # Chromium calls it typed all the same (`Sec-Fetch-Site: none`).
    assert page.goto(f"http://{EVIL}:{site}/to?{there}").status == 403
