"""What a settle does beside the decision, and what it is called."""

import random
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.domain.lease import Lease, State
from longhaul.domain.transitions import Change
from longhaul.domain.verdict import Evidence, OutcomeClass, StoppedTask, Verdict
from longhaul.metrics import StageMetric
from longhaul.settle import Settler
from tests.builders import NOW, changed, running
from tests.unit.use_cases import alone

ATTEMPT = running().id
AT_WORK = changed(running(), task_arn="arn:task", progress_at=NOW, progress={"phase": "running"})
LATER = NOW + timedelta(minutes=15)


def settler(row: Lease | None, **parts: Any) -> Settler:
    leases, finisher, tasks = Mock(), Mock(), Mock()
    leases.load.return_value = row
    leases.aws_time.return_value = NOW
    finisher.settled.side_effect = lambda lease, *_: lease
    tasks.stop.return_value = StoppedTask(is_gone=True)
    given = {"leases": leases, "finisher": finisher, "tasks": tasks, "rng": random.Random(1)}
    return alone(Settler, **{**given, **parts})


def settled(found: Settler, kind: OutcomeClass) -> Lease:
    """The row that is written for an end of that kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "longhaul.domain.settlement.classify",
            lambda *_: Verdict(kind, "x", stop_task=True),
        )
        found.settle(ATTEMPT, Evidence("any"))
    leases: Any = found.context.leases
    ((change,), _) = leases.apply.call_args
    assert isinstance(change, Change)
    return change.after


def test_the_next_attempt_waits_until_the_one_before_is_surely_gone() -> None:
    tasks = Mock()
    tasks.stop.return_value = StoppedTask(is_gone=False, gone_by=LATER)
    found = settler(AT_WORK, tasks=tasks)
    assert (settled(found, OutcomeClass.INTERRUPTED).retry_at or NOW) >= LATER


def test_a_success_is_counted_once() -> None:
    metrics = Mock()
    settled(settler(AT_WORK, metrics=metrics), OutcomeClass.SUCCEEDED)
    (values,), _ = metrics.put.call_args
    assert values[StageMetric.SUCCEEDED] == 1


@pytest.mark.parametrize(("due_s", "hidden_s"), [(-7, 0), (7, 7)])
def test_a_release_that_is_repeated_leaves_what_is_left_of_the_back_off(
    due_s: int, hidden_s: int
) -> None:
    finisher = Mock()
    row = running(state=State.RELEASED, settled_attempt=1, retry_at=NOW + timedelta(seconds=due_s))
    assert settler(row, finisher=finisher).settle(ATTEMPT, Evidence("any")) == "RELEASED"
    finisher.release.assert_called_once_with(row, hidden_s)


def test_a_dead_job_is_counted_once() -> None:
    metrics = Mock()
    settled(settler(AT_WORK, metrics=metrics), OutcomeClass.PERMANENT)
    (values,), _ = metrics.put.call_args
    assert (values[StageMetric.FAILED], values[StageMetric.DEAD_LETTERED]) == (1, 1)


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
