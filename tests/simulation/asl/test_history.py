import pytest

from tests.fakes.clock import START
from tests.fakes.stepfunctions import Execution
from tests.simulation.asl.errors import ExecutionError
from tests.simulation.asl.history import MAX_EVENTS, History

EXECUTION = Execution("arn", "machine", "x", "{}", START)


def full_history() -> History:
    """With room for one more event, the last."""
    history = History(EXECUTION, [])
    for _ in range(MAX_EVENTS - 1):
        history.write("WaitStateEntered", "Wait")
    return history


def test_the_last_event_can_only_be_an_end() -> None:
    history = full_history()

    with pytest.raises(ExecutionError, match="25000"):
        history.write("WaitStateEntered", "Wait")
    history.write_if_room("WaitStateAborted", "Wait")
    assert history.events == 24_999
    history.close("ExecutionSucceeded")
    assert history.events == 25_000


def test_who_observes_hears_of_every_event() -> None:
    heard: list[tuple[str, str]] = []
    history = History(EXECUTION, [lambda _execution, event, state: heard.append((event, state))])

    history.write("WaitStateEntered", "Wait")
    history.write_if_room("WaitStateAborted", "Wait")
    history.close("ExecutionAborted")

    assert heard == [("WaitStateEntered", "Wait"), ("WaitStateAborted", "Wait"), ("ExecutionAborted", "")]
