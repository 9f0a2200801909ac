"""Messages that are refused: what has no row yet gets a dead one, and nothing else ends with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.lease import State
from tests.handlers.life import Life
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
