"""Messages that are refused: what has no row yet gets a dead one, and nothing else ends with it."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.lease import State
from longhaul.core.settings import PathPolicy, RequestLimits
from tests.builders import BUCKET
from tests.handlers.life import JOB, Life
from tests.handlers.stack import deployed
from tests.handlers.test_notices import TOPIC, told

TOO_LONG = {"timeout": "2d"}  # above the stage's limit
NO_REQUEST = {"size": 7}


@pytest.fixture
def life(output: Path) -> Iterator[Life]:
    with deployed(notify=TOPIC) as stack:
        stack.aws.sns.create_topic(Name="ended")
        yield Life(stack, output)


@pytest.mark.parametrize("changes", [TOO_LONG, NO_REQUEST])
def test_a_refused_job_is_dead_as_every_other_one(life: Life, changes: dict[str, Any]) -> None:
    sent = life.submit(**changes)
    row = life.row()
    ((_, why),) = life.stack.dead_letters()
    (event,) = told(life)
    assert (row.state, row.is_finished) == (State.DEAD, True)
    assert row.last_class == why["class"] == event["class"] == "invalid_request"
    assert row.last_error == why["reason"] == event["reason"]
    assert (event["outcome"], event["run"]) == ("DEAD", row.run)
    assert row.receive.message_id == event["message_id"] == sent
    assert life.stack.messages() == (0, 0)


@pytest.mark.parametrize("changes", [TOO_LONG, NO_REQUEST])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_refusal_ends_no_valid_message_under_the_same_id(
    life: Life, changes: dict[str, Any], *, is_first: bool
) -> None:
    """The valid one is sent before it or after, and is received after it."""
    if is_first:
        life.send()
        held = life.receive()
    life.stack.aws.clock.advance(5)
    life.submit(**changes)
    life.stack.aws.clock.advance(5)
    if is_first:
        life.dispatch(held)
    else:
        life.submit()
    assert life.row().state is State.RUNNING
    assert len(life.stack.dead_letters()) == 1


@pytest.mark.parametrize("changes", [TOO_LONG, NO_REQUEST])
def test_a_row_that_exists_stays_as_it_is(life: Life, changes: dict[str, Any]) -> None:
    before = life.begin()
    life.submit(**changes)
    assert life.row() == before
    assert [each["outcome"] for each in told(life)] == ["REFUSED"]
    assert len(life.stack.dead_letters()) == 1


# A deploy that allows less than the one before, while jobs run and wait.


HOUR_S = 3_600
WITHOUT_LANDING = PathPolicy(data_bucket=BUCKET)
INPUTS = {"flights": "s3://landing/2013-01.csv"}


@pytest.fixture(params=["the job", "the bucket", "the ceiling"])
def narrow(request: pytest.FixtureRequest, life: Life) -> Callable[[], None]:
    """Deploys settings without the job, the bucket or the timeout that the requests name."""
    lower = life.stage.model_copy(update={"limits": RequestLimits(max_timeout_s=60)})
    changes: Any = {
        "the job": {"jobs": ("sql",)},
        "the bucket": {"paths": WITHOUT_LANDING},
        "the ceiling": {"stages": (lower,)},
    }[request.param]

    return partial(life.stack.deploy, **changes)


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
    life.fill_slots()
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
