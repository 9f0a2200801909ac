"""What a settle does that comes again, or whose row belongs to another run."""

from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.core.lease import Lease, State
from longhaul.core.settle import Settler
from longhaul.core.verdict import Evidence
from tests.builders import NOW, running
from tests.unit.use_cases import alone

ATTEMPT = running().id


def settler(row: Lease | None, **parts: Any) -> Settler:
    leases = Mock()
    leases.load.return_value = row
    return alone(Settler, **{"leases": leases, **parts})


@pytest.mark.parametrize(("due_s", "hidden_s"), [(-7, 0), (7, 7)])
def test_a_release_that_is_repeated_leaves_what_is_left_of_the_back_off(
    due_s: int, hidden_s: int
) -> None:
    finisher = Mock()
    row = running(state=State.RELEASED, settled_attempt=1, retry_at=NOW + timedelta(seconds=due_s))
    assert settler(row, finisher=finisher).settle(ATTEMPT, Evidence("any")) == "RELEASED"
    finisher.release.assert_called_once_with(row, hidden_s)


@pytest.mark.parametrize(
    ("row", "called"),
    [
        (None, "SUPERSEDED"),
        (running(run=ATTEMPT.run + 1), "SUPERSEDED"),
        (running(state=State.SUCCEEDED, settled_attempt=1, retry_at=NOW), "SUPERSEDED"),
        (running(state=State.RELEASED, settled_attempt=1), "RELEASED"),
    ],
    ids=["no row", "another run", "a new run began", "released for good"],
)
def test_an_attempt_that_was_settled_before_is_called_as_its_row_is_then(
    row: Lease | None, called: str
) -> None:
    """Finishing it may have started a new run."""
    finisher = Mock()
    is_released = row is not None and row.state is State.RELEASED
    finisher.finish.return_value = row if is_released else running()
    assert settler(row, finisher=finisher).settle(ATTEMPT, Evidence("any")) == called


@pytest.mark.parametrize("row", [None, running(run=ATTEMPT.run + 1)], ids=["no row", "another run"])
def test_an_attempt_that_no_row_holds_is_not_given_up(row: Lease | None) -> None:
    leases, giving_up = Mock(), Mock()
    leases.load.side_effect = [TimeoutError, row]
    with pytest.raises(TimeoutError):
        settler(None, leases=leases, giving_up=giving_up).settle(ATTEMPT, Evidence("any"))
    assert giving_up.is_due.called
    assert not giving_up.end.called
