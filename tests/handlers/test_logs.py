"""Every log line about a job names the job, its attempt and its execution.

That holds in batches and in threads too: no line names another job.
"""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from functions.dispatcher import lambda_handler as dispatcher
from functions.dispatcher import logger as functions_logger
from longhaul.core.lease import State
from tests.handlers.life import Life
from tests.handlers.stack import Context, Stack

Log = list[dict[str, Any]]


class Kept(logging.Handler):
    """Formats each line at once, as the functions' handler does.

    Later, the log context no longer has the job's keys.
    """

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


def test_line_of_a_batch_names_its_own_job(life: Life, log: Log) -> None:
    jobs = [f"job-{n}" for n in range(8)]
    for job in jobs:
        life.send(job)
    life.deliver()
    assert sorted(named(line) for line in log) == sorted(names(life, job) for job in jobs)
    assert {line["message"] for line in log} == {"job claimed"}


def test_every_function_names_the_attempt_and_its_label_in_its_lines(life: Life, log: Log) -> None:
    first = life.running("january", label="7 October")
    life.stack.aws.clock.advance(70)
    life.beat(first)
    life.stack.aws.clock.advance(10_000)  # no progress for a long time
    life.beat(first)
    life.settle(first, "stalled")
    life.deliver(after_s=400)
    second = life.row("january")
    life.close(second, "ABORTED")
    assert life.sweep(after_s=1_000)["settled"] == 1
    logged = [(line["message"], *named(line)) for line in log]
    assert logged[:4] == [
        ("job claimed", *names(life, "january")),
        ("beat ends the job", *names(life, "january")),
        ("attempt settled", *names(life, "january")),
        ("job claimed", *names(life, "january", 2)),
    ]
    assert ("attempt settled", *names(life, "january", 2)) in logged
    assert logged[-1] == ("swept", None, None, None)
    assert [line.get("label") for line in log] == ["7 October"] * (len(log) - 1) + [None]


def test_error_is_logged_with_the_job_that_has_it(
    stack: Stack, life: Life, context: Context, log: Log
) -> None:
    life.send("january")
    records = life.receive()
    stack.aws.s3.buckets.clear()
    dispatcher({"Records": records}, context)
    (line,) = log
    assert (line["message"], line["job_id"]) == ("this message stays in the queue", "january")
    assert "ClientError: NoSuchBucket at PutObject: The specified bucket" in line["exception"]
    assert stack.parts.leases.load("main#january") is None
    assert State.RUNNING not in [row.state for row in life.rows()]
