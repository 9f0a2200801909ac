"""`longhaul replay` as a user starts it: in its own process, with credentials and an endpoint around that must not be used."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from console.cli import app

ROOT = Path(__file__).parents[2]


def replay(*arguments: str, event: str | None = None) -> Result:
    surroundings = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",  # nobody answers there
        "AWS_PROFILE": "production",
        "AWS_ACCESS_KEY_ID": "precious",
        "AWS_SECRET_ACCESS_KEY": "precious",
    }
    return CliRunner().invoke(app, ["replay", *arguments], input=event, env=surroundings)


def test_a_batch_is_dispatched_and_what_is_invalid_dead_lettered() -> None:
    done = replay(str(ROOT / "events" / "dispatcher" / "mixed-batch.json"))
    assert done.exit_code == 0, done.stderr
    assert len(json.loads(done.stdout)["batchItemFailures"]) == 2
    assert "lease main#flights-2013-02: RUNNING, attempt 1" in done.stderr
    assert "dead letter: invalid_request: job: unknown job 'flights_cleam'" in done.stderr


def test_a_settle_finds_the_lease_of_its_attempt() -> None:
    done = replay(str(ROOT / "events" / "settle" / "out-of-memory.json"))
    assert json.loads(done.stdout) == {"outcome": "RELEASED"}
    assert "out_of_memory" in done.stderr


def test_a_beat_extends_a_message_that_is_really_held() -> None:
    done = replay("-", "--function", "heartbeat", event=(ROOT / "events" / "heartbeat" / "first-beat.json").read_text())
    assert json.loads(done.stdout)["next"] == "wait"


def test_a_handler_that_raises_is_told_from_a_replay_that_fails() -> None:
    done = replay("-", "--function", "settle", event='{"x": "\\u001b[2J"}')
    assert done.exit_code == 1
    assert "longhaul: the handler raised ValidationError" in done.stderr
    assert done.stdout == ""
    assert "\x1b" not in done.output


@pytest.mark.parametrize(
    ("arguments", "event", "said"),
    [
        (("-",), "{}", "which function?"),
        (("-", "--function", "nobody"), "{}", "which function?"),
        (("-", "--function", "settle"), "{", "is not valid JSON"),
        (("-", "--function", "settle"), "[]", "an event is a JSON object"),
    ],
)
def test_wrong_use_says_what_is_wrong(arguments: tuple[str, ...], event: str, said: str) -> None:
    done = replay(*arguments, event=event)
    assert (done.exit_code, said in done.stderr) == (2, True)
