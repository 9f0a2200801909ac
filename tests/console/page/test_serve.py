"""`longhaul console` as a process of its own would run it: a real server on loopback."""

import socket
import webbrowser
from http.client import HTTPConnection
from threading import Thread
from typing import Any

import pytest
from werkzeug.serving import BaseWSGIServer

from console.page.serve import serving
from console.target import Target
from tests.console.conftest import World


def asked(port: int, path: str, **headers: str) -> tuple[int, str, str]:
    """Status, body and cookie."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), answer.headers.get("Set-Cookie", "")
    connection.close()
    return found


def test_it_listens_on_loopback_and_logs_no_token(target: Target, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(target, 0) as (server, guard):
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        assert server.socket.getsockname() == ("127.0.0.1", guard.port)
        status, _, cookie = asked(guard.port, guard.link.partition(str(guard.port))[2])
        assert status == 200
        assert asked(guard.port, "/", Cookie=cookie.partition(";")[0])[0] == 200
        assert asked(guard.port, "/")[0] == 403
        assert asked(guard.port, "/", Cookie=cookie.partition(";")[0], Host="evil.example")[0] == 421
        server.shutdown()
        thread.join()
    said = capfd.readouterr()
    assert guard.token not in said.out + said.err


def test_a_port_that_is_taken_is_said(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = world.run("console", "--port", str(port))
    assert done.exit_code == 1
    assert f"port {port} cannot be had (Address already in use): --port 0 takes a free one" in done.stderr


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[BaseWSGIServer]:
    """The servers that would have served: it was Ctrl-C at once."""
    found: list[BaseWSGIServer] = []

    def end_at_once(server: BaseWSGIServer) -> None:
        found.append(server)

    monkeypatch.setattr(BaseWSGIServer, "serve_forever", end_at_once)
    return found


@pytest.mark.parametrize(("sits", "arguments", "opens"), [(True, (), 1), (True, ("--no-browser",), 0), (False, (), 0)])
def test_the_link_is_data_and_opens_where_somebody_sits(
    world: World, served: list[BaseWSGIServer], monkeypatch: pytest.MonkeyPatch, sits: Any, arguments: Any, opens: int
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(webbrowser, "open", seen.append)
    monkeypatch.setattr("console.commands.console.asked_here", lambda: sits)
    done = world.run("console", *arguments)
    assert done.exit_code == 0
    assert done.stdout.startswith(f"http://127.0.0.1:{served[0].port}/?token=")
    assert seen == [done.stdout.strip()] * opens
    assert "→ stack Longhaul on AWS, us-east-1" in done.stderr


def test_without_a_stack_it_does_not_begin(bare: World, served: list[BaseWSGIServer]) -> None:
    assert bare.run("console", "--no-browser").exit_code == 3
    assert served == []
