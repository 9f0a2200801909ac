"""A deploy that allows less than the one before, while jobs run and wait."""

from collections.abc import Callable
from typing import Any

import pytest

from longhaul.core.lease import State
from longhaul.core.settings import VARIABLE, PathPolicy, RequestLimits
from tests.builders import BUCKET
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
    changes: Any = {
        "the job": {"jobs": ("sql",)},
        "the bucket": {"paths": WITHOUT_LANDING},
        "the ceiling": {"stages": (lower,)},
    }[request.param]

    def deploy() -> None:
        narrower = stack.settings.model_copy(update=changes)
        monkeypatch.setenv(VARIABLE, narrower.model_dump_json())
        forget_runtimes()

    return deploy


def submit(life: Life, **changes: Any) -> str:
    return life.send(inputs=INPUTS, timeout="1h", **changes)


def test_a_released_job_is_tried_again_and_ends_well(
    life: Life, narrow: Callable[[], None]
) -> None:
    submit(life)
    life.deliver()
    life.settle(life.row(), "exit-1")
    narrow()
    life.deliver(after_s=HOUR_S)
    row = life.row()
    assert (row.state, row.attempt.number) == (State.RUNNING, 2)
    life.succeed(row)
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
