"""`longhaul console` with a real server on loopback."""

import re
import socket
from http.client import HTTPConnection
from threading import Event, Thread

import pytest
from werkzeug.serving import BaseWSGIServer

from longhaul.cli.errors import CommandError
from longhaul.cli.page.latest import Views
from longhaul.cli.page.serve import serving
from longhaul.cli.target import Target
from simulation.aws.clock import VirtualClock
from tests.cli.conftest import World


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


def test_a_taken_port_is_reported(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = f"cannot listen on port {port} (Address already in use); `--port 0` picks a free one"
        world.run("console", "--port", str(port), code=1, says=said)


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


def test_a_defect_is_raised_and_not_shown_as_a_problem_of_aws(views: Views) -> None:
    def fetch() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        views.get("x", fetch)


def test_views_that_are_no_longer_looked_at_are_forgotten(views: Views) -> None:
    asked = list[int]()
    for n in (*range(40), 39, 0):
        views.get(n, lambda n=n: asked.append(n))
    assert asked[-2:] == [39, 0]
