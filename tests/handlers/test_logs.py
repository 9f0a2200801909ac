"""Every line that is about a job says which, which attempt, and which execution; in batches and threads too, and no line says another's."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions.dispatcher import lambda_handler as dispatcher
from functions.dispatcher import logger as functions_logger
from longhaul.domain.lease import State
from tests.handlers.conftest import Context, Stack
from tests.handlers.life import Life

Log = list[dict[str, Any]]


@pytest.fixture
def life(stack: Stack, output: Path) -> Life:
    return Life(stack, output)


class Kept(logging.Handler):
    """Lines as the functions' own handler writes them, at once: later nobody knows any more what they were about."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(functions_logger.registered_formatter)
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def log() -> Iterator[Log]:
    kept, parent = Kept(), logging.getLogger(functions_logger.name)
    parent.addHandler(kept)
    yield kept.lines
    parent.removeHandler(kept)


def named(line: dict[str, Any]) -> tuple[Any, Any, Any]:
    return line.get("job_id"), line.get("attempt"), line.get("execution")


def names(life: Life, job_id: str, attempt: int = 1) -> tuple[Any, Any, Any]:
    row = life.row(job_id)
    return job_id, attempt, f"{row.id.key_hash}-{row.run}-{attempt}"


def test_each_line_of_a_batch_names_its_own_job(life: Life, log: Log) -> None:
    jobs = [f"job-{n}" for n in range(8)]
    for job in jobs:
        life.send(job)
    life.deliver()
    assert sorted(named(line) for line in log) == sorted(names(life, job) for job in jobs)
    assert {line["message"] for line in log} == {"job claimed"}


def test_an_attempts_life_names_it_in_every_function(life: Life, log: Log) -> None:
    life.send("january")
    life.deliver()
    first = life.row("january")
    life.start_work(first)
    life.stack.aws.clock.advance(70)
    life.beat(first)
    life.stack.aws.clock.advance(10_000)  # no progress for long
    life.beat(first)
    life.settle(first, "stalled")
    life.stack.aws.clock.advance(400)
    life.deliver()
    second = life.row("january")
    life.close(second, "ABORTED")
    life.stack.aws.clock.advance(1_000)
    assert life.sweep()["settled"] == 1
    told = [(line["message"], *named(line)) for line in log]
    assert told[:4] == [
        ("job claimed", *names(life, "january")),
        ("beat ends the job", *names(life, "january")),
        ("attempt settled", *names(life, "january")),
        ("job claimed", *names(life, "january", 2)),
    ]
    assert ("attempt settled", *names(life, "january", 2)) in told
    assert told[-1] == ("swept", None, None, None)


def test_an_adopted_receive_and_a_duplicate_say_whose_they_are(life: Life, log: Log) -> None:
    life.send("january")
    life.deliver()
    life.stack.aws.clock.advance(200)
    life.deliver()
    life.send("january")  # the same work under the same key
    life.deliver()
    told = {(line["message"], *named(line)) for line in log}
    assert ("running job adopted", *names(life, "january")) in told
    assert ("duplicate submission deleted", "january", None, None) in told


def test_trouble_names_the_job_that_has_it(stack: Stack, life: Life, context: Context, log: Log) -> None:
    life.send("january")
    records = life.receive()
    stack.aws.s3.buckets.clear()
    dispatcher({"Records": records}, context)  # type: ignore[arg-type]
    (line,) = log
    assert (line["message"], line["job_id"]) == ("this message stays in the queue", "january")
    assert stack.parts.leases.load("main#january") is None
    assert State.RUNNING not in [row.state for row in life.rows()]
