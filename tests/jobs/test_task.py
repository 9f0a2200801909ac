"""What the runner does while ECS's metadata endpoint does not describe its task."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jobs import runner, task
from jobs.stopping import Stop, StopReason
from longhaul.domain.verdict import ExitCode

DESCRIPTION = json.dumps({"TaskARN": "arn:task/1", "Limits": {"CPU": 1, "Memory": 2048}}).encode()


class Agent:
    """An endpoint that answers with these status codes in turn; then with the task."""

    def __init__(self, *statuses: int) -> None:
        left = list(statuses)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status = left.pop(0) if left else 200
                self.send_response(status)
                self.end_headers()
                self.wfile.write(DESCRIPTION if status == 200 else b"not yet")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The endpoint takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setenv(
            task.METADATA_VARIABLE, "http://127.0.0.1:{1}".format(*deaf.getsockname())
        )
        monkeypatch.setattr(task, "_TIMEOUT_S", 0.05)
        yield


@pytest.mark.parametrize("statuses", [(), (404, 500), (500, 503, 429)])
def test_a_task_that_the_agent_does_not_know_yet_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, statuses: tuple[int, ...]
) -> None:
    agent = Agent(*statuses)
    monkeypatch.setenv(task.METADATA_VARIABLE, agent.url)
    monkeypatch.setattr(task, "_PAUSE_S", 0.01)
    try:
        assert task.this_task(Stop()).arn == "arn:task/1"
    finally:
        agent.server.shutdown()
        agent.server.server_close()


@pytest.mark.usefixtures("nobody")
def test_an_agent_that_never_answers_is_no_failure_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task, "_PATIENCE_S", 0)
    monkeypatch.setattr(runner, "stop_on_sigterm", lambda *_: None)

    assert runner.main() == ExitCode.INTERRUPTED


@pytest.mark.usefixtures("nobody")
def test_a_stop_ends_the_wait_for_the_agent() -> None:
    stop = Stop()
    stop.request(StopReason.TERMINATED, "SIGTERM")
    begun = time.monotonic()
    with pytest.raises(ConnectionError):
        task.this_task(stop)
    assert time.monotonic() - begun < task._PATIENCE_S


def test_outside_of_ecs_the_error_says_what_starts_the_runner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(task.METADATA_VARIABLE, raising=False)
    with pytest.raises(RuntimeError, match="started by ECS"):
        task.this_task(Stop())
