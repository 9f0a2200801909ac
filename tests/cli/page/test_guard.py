"""The requests that are let in, and those that are refused."""

import re
from http.client import HTTPConnection
from threading import Event, Thread

import pytest
from werkzeug.serving import BaseWSGIServer

from longhaul.cli.errors import CommandError
from longhaul.cli.page.guard import HEADERS, Guard
from longhaul.cli.page.latest import Views
from longhaul.cli.page.serve import serving
from longhaul.cli.target import Target
from simulation.aws.clock import VirtualClock
from tests.cli.conftest import World
from tests.cli.page.conftest import HOME, PORT, ROOT, Elements, Visitor
from tests.cli.page.scenes import dead

PATHS = (
    "/",
    "/job?id=x",
    "/find?id=x",
    "/dead-letters",
    "/ask/cancel?key=x",
    "/static/page.js",
    "/nothing",
)


def test_every_address_of_the_page_begins_with_the_secret_and_there_is_no_cookie(
    world: World, visitor: Visitor
) -> None:
    dead(world, "job", "why")
    world.bury("other")
    for path in ("/", "/job?id=job", "/find?id=job", "/dead-letters", "/ask/rerun?key=%23job"):
        answer = visitor.get(path)
        assert "Set-Cookie" not in answer.headers
        addresses = [
            each
            for _, attributes in Elements(answer.text).found
            for name, each in attributes.items()
            if name in ("href", "src", "action") and each and not each.startswith("#")
        ]
        assert all(each.startswith(f"{ROOT}/") for each in [*addresses, answer.location] if each)
    assert visitor.post("/do/rerun", key="#job").headers["Location"].startswith(f"{ROOT}/")


def test_the_secret_is_long_and_new_and_not_in_the_repr() -> None:
    one, two = Guard(PORT), Guard(PORT)
    assert one.secret != two.secret
    assert len(one.secret) >= 43  # 256 bits in base64
    assert one.secret not in repr(one)


@pytest.mark.parametrize(
    "root", ["", "/x", "/the-secre", "/the-secret-", "/tökén", "/" + "x" * 5000]
)
@pytest.mark.parametrize("path", PATHS)
def test_without_the_secret_nothing_is_shown(
    world: World, visitor: Visitor, root: str, path: str
) -> None:
    dead(world, "secret-name", "why")
    world.aws.gate.counts.clear()
    answer = visitor.client.get(f"{root}{path}", base_url=HOME)
    assert answer.status_code == 403
    assert "secret-name" not in answer.text
    assert f"{ROOT}/" not in answer.text
    assert not world.aws.gate.counts


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8700",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1:8700.evil.example",
        "",
        "[::1]:8700",
    ],
)
def test_a_foreign_host_name_is_refused(visitor: Visitor, host: str) -> None:
    answer = visitor.client.get(f"{ROOT}/", base_url=HOME, headers={"Host": host})
    assert answer.status_code == 421


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://127.0.0.1:9", "http://evil.example", f"https://127.0.0.1:{PORT}"],
)
def test_a_form_of_another_page_does_nothing(
    world: World, visitor: Visitor, origin: str | None
) -> None:
    world.claim("job")
    form = {"key": "main#job"}
    headers = {"Origin": origin} if origin else {}
    answer = visitor.client.post(f"{ROOT}/do/cancel", data=form, base_url=HOME, headers=headers)
    assert answer.status_code == 403
    row = world.parts.leases.load("main#job")
    assert row is not None
    assert row.cancel_requested_at is None


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/do/cancel", "POST"),
        ("POST", "/", "GET"),
        ("PUT", "/job", "GET"),
        ("OPTIONS", "/", "GET"),
    ],
)
def test_each_address_takes_one_method(
    visitor: Visitor, method: str, path: str, allowed: str
) -> None:
    answer = visitor.client.open(
        ROOT + path, method=method, base_url=HOME, headers={"Origin": HOME}
    )
    assert (answer.status_code, allowed in answer.headers["Allow"]) == (405, True)


def test_a_body_that_is_too_large_is_refused(visitor: Visitor) -> None:
    assert visitor.post("/do/cancel", key="x" * 270_000).status_code == 413
    assert visitor.post("/do/rerun", key=["x"] * 60_000).status_code == 413


@pytest.mark.parametrize(
    "path", ["/", "/static/page.js", "/nothing", "/ask/cancel?key=x", "/do/cancel"]
)
def test_every_response_has_the_security_headers(visitor: Visitor, path: str) -> None:
    headers = visitor.get(path).headers
    assert {name: headers[name] for name in HEADERS} == HEADERS
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert headers["Cache-Control"] == "no-store"


# `longhaul console` with a real server on loopback.


def asked(port: int, path: str, **headers: str) -> int:
    """The status."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def test_it_listens_on_loopback_and_logs_no_secret(
    target: Target, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(target, 0) as (server, guard):
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        assert server.socket.getsockname() == ("127.0.0.1", guard.port)
        assert guard.link == f"http://127.0.0.1:{guard.port}{guard.root}/"
        assert asked(guard.port, f"{guard.root}/") == 200
        assert asked(guard.port, "/") == 403
        assert asked(guard.port, f"{guard.root}/", Host="evil.example") == 421
        server.shutdown()
        thread.join()
    said = capfd.readouterr()
    assert guard.secret not in said.out + said.err


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[BaseWSGIServer]:
    """The servers that were started; each ends at once."""
    found: list[BaseWSGIServer] = []

    def end_at_once(server: BaseWSGIServer) -> None:
        found.append(server)

    monkeypatch.setattr(BaseWSGIServer, "serve_forever", end_at_once)
    return found


def test_the_link_goes_to_stdout_alone(world: World, served: list[BaseWSGIServer]) -> None:
    link = world.run("console", says="→ stack Longhaul on AWS, us-east-1").stdout
    assert re.fullmatch(rf"http://127\.0\.0\.1:{served[0].port}/[\w-]{{43}}/\n", link)


def test_the_page_is_not_served_without_a_stack(bare: World, served: list[BaseWSGIServer]) -> None:
    bare.run("console", code=3)
    assert served == []


# The page goes on when AWS fails.


@pytest.fixture
def views() -> Views:
    return Views(VirtualClock().now)


def test_simultaneous_looks_share_one_fetch(views: Views) -> None:
    asked, go = list[int](), Event()

    def fetch() -> str:
        asked.append(1)
        go.wait(30)
        return "answer"

    seen: list[str | None] = []
    threads = [Thread(target=lambda: seen.append(views.get("x", fetch).value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert (len(asked), seen) == (1, ["answer"] * 8)


def test_a_problem_is_a_sentence_and_is_not_retried_at_once(views: Views) -> None:
    asked = list[int]()

    def fetch() -> None:
        asked.append(1)
        raise CommandError("no such thing")

    assert [views.get("x", fetch).problem for _ in range(3)] == ["no such thing"] * 3
    assert len(asked) == 1
