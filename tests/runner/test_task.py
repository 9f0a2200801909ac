"""What the runner does while ECS's metadata endpoint does not describe its task."""

import socket
import time
from collections.abc import Iterator

import pytest

from longhaul.core.verdict import ExitCode
from longhaul.engines.fargate import runner
from longhaul.runner import task
from longhaul.runner.stopping import Stop, StopReason
from tests.runner.metadata import ARN, metadata_endpoint


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The endpoint takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        monkeypatch.setenv(task.METADATA_VARIABLE, f"http://127.0.0.1:{port}")
        monkeypatch.setattr(task, "_TIMEOUT_S", 0.05)
        yield


@pytest.mark.parametrize("errors", [(), (404, 500), (500, 503, 429)])
def test_a_task_that_the_agent_does_not_know_yet_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, errors: tuple[int, ...]
) -> None:
    monkeypatch.setattr(task, "_PAUSE_S", 0.01)
    with metadata_endpoint(*errors) as url:
        monkeypatch.setenv(task.METADATA_VARIABLE, url)

        assert task.this_task(Stop()).arn == ARN


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
