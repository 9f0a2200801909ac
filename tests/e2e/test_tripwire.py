"""The tripwire meets callers that give up while a busy machine serves them."""

import io
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.e2e.tripwire import Tripwire

_CALLER = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print(connection.getsockname()[1], flush=True)
sys.stdin.readline()
connection.close()
print("hung up", flush=True)
sys.stdin.readline()
"""


class Caller:
    """A process of its own with a connection to the server, until it hangs up."""

    def __init__(self, port: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CALLER, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self._line())

    def hang_up(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self._line() == "hung up\n"

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()


class Server:
    """Counts the calls that took effect; `during` runs while it serves one."""

    def __init__(self) -> None:
        self.calls = 0
        self.during: Callable[[], None] = lambda: None
        self.app: Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]] = self._serve

    def _serve(self, _environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        self.during()
        self.calls += 1
        start_response("200 OK", [])
        return [b"{}"]

    def call(self, caller: Caller) -> str:
        """The status of a call with "the word" in its body."""
        body = b'{"key": "the word"}'
        statuses = []
        environ = {
            "HTTP_X_AMZ_TARGET": "DynamoDB_20120810.TransactWriteItems",
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_PORT": str(caller.port),
            "wsgi.input": io.BytesIO(body),
        }
        b"".join(self.app(environ, lambda status, _: statuses.append(status)))
        return statuses[0]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def wire(server: Server) -> Iterator[Tripwire]:
    aws: Any = SimpleNamespace(_server=SimpleNamespace(_server=server))
    with Tripwire(aws) as wire:
        yield wire


@pytest.fixture
def caller() -> Iterator[Caller]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        caller = Caller(listening.getsockname()[1])
        try:
            yield caller
        finally:
            with caller.process:
                caller.process.kill()


@pytest.mark.parametrize("after", [False, True])
def test_a_caller_is_killed_before_or_after_its_call_takes_effect(
    server: Server, wire: Tripwire, caller: Caller, *, after: bool
) -> None:
    trap = wire.lay("TransactWriteItems", "the word", after=after)
    server.call(caller)
    assert caller.process.wait(60) == -signal.SIGKILL
    assert trap.sprung.is_set()
    assert server.calls == int(after)


def test_a_caller_that_gives_up_while_it_is_served_is_killed_all_the_same(
    server: Server, wire: Tripwire, caller: Caller
) -> None:
    trap = wire.lay("TransactWriteItems", "the word", after=True)
    server.during = caller.hang_up
    server.call(caller)
    assert caller.process.wait(60) == -signal.SIGKILL
    assert trap.sprung.is_set()


@pytest.mark.parametrize("after", [False, True])
def test_a_call_of_one_that_has_hung_up_takes_no_effect_and_leaves_the_trap_for_the_next_try(
    server: Server, wire: Tripwire, caller: Caller, *, after: bool
) -> None:
    trap = wire.lay("TransactWriteItems", "the word", after=after)
    caller.hang_up()
    assert server.call(caller).startswith("503")
    assert server.calls == 0
    assert not trap.sprung.is_set()
    assert caller.process.poll() is None


def test_other_calls_are_served(server: Server, wire: Tripwire, caller: Caller) -> None:
    wire.lay("TransactWriteItems", "another word", after=True)
    wire.lay("UpdateItem", "the word", after=True)
    assert server.call(caller) == "200 OK"
    assert caller.process.poll() is None
