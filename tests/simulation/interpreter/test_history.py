import pytest

from simulation.aws.clock import START
from simulation.aws.stepfunctions.asl.limits import MAX_EVENTS, ExecutionError, History
from simulation.aws.stepfunctions.client import Execution

EXECUTION = Execution("arn", "machine", "x", "{}", START)


def full_history() -> History:
    """A history with room for one more event, the last."""
    history = History(EXECUTION, [])
    for _ in range(MAX_EVENTS - 1):
        history.write("WaitStateEntered", "Wait")
    return history


def test_last_event_of_a_full_history_is_an_end() -> None:
    history = full_history()

    with pytest.raises(ExecutionError, match="25000"):
        history.write("WaitStateEntered", "Wait")
    history.write_if_room("WaitStateAborted", "Wait")
    assert history.events == 24_999
    history.close("ExecutionSucceeded")
    assert history.events == 25_000
