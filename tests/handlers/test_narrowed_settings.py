"""A deploy that allows less than the one before, while jobs run and wait."""

from collections.abc import Callable
from typing import Any

import pytest

from longhaul.core.lease import State
from longhaul.core.settings import VARIABLE, PathPolicy, RequestLimits
from tests.builders import BUCKET, body
from tests.handlers.life import JOB, Life
from tests.handlers.stack import Stack, forget_runtimes

HOUR_S = 3_600
WITHOUT_LANDING = PathPolicy(data_bucket=BUCKET)
INPUTS = {"flights": "s3://landing/2013-01.csv"}


@pytest.fixture(params=["the job", "the bucket", "the ceiling"])
def narrow(
    request: pytest.FixtureRequest, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Deploys settings without the job, the bucket or the timeout that the requests name."""
    (stage,) = stack.settings.stages
    lower = stage.model_copy(update={"limits": RequestLimits(max_timeout_s=60)})
    changes: dict[str, Any] = {
        "the job": {"jobs": ("sql",)},
        "the bucket": {"paths": WITHOUT_LANDING},
        "the ceiling": {"stages": (lower,)},
    }[request.param]

    def deploy() -> None:
        narrower = stack.settings.model_copy(update=changes)
        monkeypatch.setenv(VARIABLE, narrower.model_dump_json())
        forget_runtimes()

    return deploy


def widen(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, life.stack.settings.model_dump_json())
    forget_runtimes()


def submit(life: Life, **changes: Any) -> str:
    return life.send(inputs=INPUTS, timeout="1h", **changes)


def come_again(life: Life, seconds: float = 120) -> int:
    life.stack.aws.clock.advance(seconds)
    return life.deliver()


def test_the_message_of_a_running_job_is_adopted(life: Life, narrow: Callable[[], None]) -> None:
    submit(life)
    life.deliver()
    narrow()
    assert come_again(life) == 1
    assert (life.row().state, life.row().attempt.adoptions) == (State.RUNNING, 1)
    assert life.stack.dead_letters() == []


def test_a_released_job_is_tried_again_and_ends_well(
    life: Life, narrow: Callable[[], None]
) -> None:
    submit(life)
    life.deliver()
    life.settle(life.row(), "exit-1")
    narrow()
    come_again(life, HOUR_S)
    row = life.row()
    assert (row.state, row.attempt.number) == (State.RUNNING, 2)
    life.succeed(row)
    assert life.stack.dead_letters() == []
    assert life.stack.messages() == (0, 0)


def test_the_copy_of_a_released_jobs_lost_message_is_claimed(
    life: Life, narrow: Callable[[], None]
) -> None:
    submit(life)
    life.deliver()
    life.settle(life.row(), "exit-1")
    narrow()
    life.stack.sqs.purge_queue(QueueUrl=life.stack.jobs_url)
    life.stack.aws.clock.advance(7 * HOUR_S)
    assert life.sweep()["renewed"] == 1
    come_again(life)
    assert (life.row().state, life.row().attempt.number) == (State.RUNNING, 2)
    assert life.stack.dead_letters() == []


def test_the_same_work_again_is_a_duplicate(life: Life, narrow: Callable[[], None]) -> None:
    submit(life)
    life.deliver()
    narrow()
    submit(life)
    life.deliver()
    assert life.stack.dead_letters() == []
    assert life.stack.messages() == (0, 1)


def test_a_job_that_is_cancelled_while_it_waits_is_cancelled(
    life: Life, narrow: Callable[[], None]
) -> None:
    submit(life)
    life.stack.aws.clock.advance(1)
    life.cancel()
    narrow()
    life.deliver()
    assert life.row().state is State.CANCELLED
    assert life.stack.dead_letters() == []
    assert life.stack.messages() == (0, 0)


def test_a_first_run_is_refused_at_once_also_while_every_slot_is_taken(
    life: Life, narrow: Callable[[], None]
) -> None:
    for n in range(life.stage.slots):
        life.send(f"busy-{n}")
    life.deliver()
    life.deliver()
    narrow()
    submit(life)
    life.deliver()
    ((_, why),) = life.stack.dead_letters()
    assert (why["class"], why["key"]) == ("invalid_request", f"main#{JOB}")
    assert life.row().is_refused


def test_a_new_run_of_a_dead_job_is_refused_and_its_row_stays(
    life: Life, narrow: Callable[[], None]
) -> None:
    submit(life, max_attempts=1)
    life.deliver()
    life.settle(life.row(), "exit-1")
    dead = life.row()
    narrow()
    submit(life, max_attempts=2)
    life.deliver()
    assert life.row() == dead
    assert [why["class"] for _, why in life.stack.dead_letters()] == ["failed", "invalid_request"]


def test_a_refused_job_runs_under_its_own_id_when_it_is_allowed_again(
    life: Life, narrow: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow()
    sent = submit(life)
    unnamed = life.stack.sqs.send_message(
        QueueUrl=life.stack.jobs_url,
        MessageBody=body(inputs=INPUTS, timeout="1h", output=f"s3://{BUCKET}/out/unnamed/"),
    )["MessageId"]
    life.deliver()
    assert {sent, unnamed}.isdisjoint(life.stack.sqs.queues[life.stack.jobs_url].messages)
    widen(life, monkeypatch)
    dead = life.stack.sqs.queues[life.stack.dead_letters_url]
    jobs = life.stack.sqs.queues[life.stack.jobs_url]
    life.stack.sqs.start_message_move_task(SourceArn=dead.arn, DestinationArn=jobs.arn)
    life.deliver()
    assert {life.row().state, life.row(unnamed).state} == {State.RUNNING}
