"""What a sweep looks at, what it leaves alone, and what it counts."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.core.errors import LeaseChangedError
from longhaul.core.lease import AttemptId, Lease, Owed, State
from longhaul.core.message import Message, renewal
from longhaul.core.metrics import StageMetric
from longhaul.core.ports import Depth, Rows, RunningTask
from longhaul.core.settings import LeaseSettings
from longhaul.core.sweep import Sweeper
from longhaul.outputs.publication import Publication
from longhaul.saved.keeper import Keeper
from tests.builders import NOW, changed, running, stage
from tests.unit.use_cases import alone

SECOND = timedelta(seconds=1)
GRACE = LeaseSettings().visibility_margin_s * SECOND
LONG_AGO = NOW - timedelta(days=3)
CONTENT = Message("{}", {})


def sweeper(*rows: Lease, removed: tuple[str, ...] = (), **parts: Any) -> Sweeper:
    """A sweeper that sees these rows."""
    leases, queue, tasks, slots, requests = (Mock() for _ in range(5))
    leases.stages.return_value = {"main", *removed}
    leases.open_keys.side_effect = lambda stage, kind: iter(
        [row.key for row in rows if (row.stage, row.open_kind) == (stage, kind)]
    )
    leases.load_many.side_effect = lambda keys: Rows(
        {row.key: row for row in rows if row.key in set(keys)}
    )
    leases.aws_time.return_value = NOW
    queue.depth.return_value = Depth(visible=0, hidden=0)
    requests.get.return_value = CONTENT
    slots.blocked_s.return_value = 0.0
    slots.room.return_value.running = slots.room.return_value.free = 0
    tasks.running.return_value = iter(())
    given = {
        "leases": leases,
        "queue": queue,
        "tasks": tasks,
        "slots": slots,
        "requests": requests,
        "features": (),
    }
    return alone(Sweeper, **{**given, **parts})


def mocked(part: object) -> Mock:
    assert isinstance(part, Mock)
    return part


def keeping(found: Sweeper, store: Mock) -> Sweeper:
    return replace(found, features=(Keeper(context=found.context, store=store).look_after,))


def released(**changes: Any) -> Lease:
    """Its message has not come for days."""
    values = {"state": State.RELEASED, "settled_attempt": 1, "settled_at": LONG_AGO}
    return running(**{**values, "retry_at": LONG_AGO, **changes})


@pytest.mark.parametrize(
    ("late_by", "asked", "without_beat"), [(GRACE - SECOND, 0, 0), (GRACE, 1, 1)]
)
def test_the_execution_of_a_job_that_beats_is_not_asked_for(
    late_by: timedelta, asked: int, without_beat: int
) -> None:
    executions, metrics = Mock(), Mock()
    executions.status.return_value = "RUNNING"
    row = running(lease_expires_at=NOW - late_by)
    report = sweeper(row, executions=executions, metrics=metrics).sweep()
    assert executions.status.call_count == asked
    values = metrics.put.call_args_list[0].args[0]
    assert values[StageMetric.WITHOUT_BEAT] == without_beat
    assert report.repairs == 0


def test_copy_is_noted_before_it_is_sent() -> None:
    calls, found = Mock(), sweeper(released())
    calls.attach_mock(mocked(found.context.leases).apply, "apply")
    calls.attach_mock(mocked(found.context.queue).send, "send")

    assert found.sweep().renewed == 1

    assert [call[0] for call in calls.mock_calls] == ["apply", "send"]


def test_copy_that_another_sweep_sends_is_not_sent_twice() -> None:
    found = sweeper(released())
    mocked(found.context.leases).apply.side_effect = LeaseChangedError(None)

    report = found.sweep()

    assert (report.renewed, report.failed) == (0, 0)
    assert not mocked(found.context.queue).send.called


def test_copy_that_cannot_be_sent_is_tried_again_by_the_next_sweep() -> None:
    giving_up, row = Mock(), released()
    giving_up.is_due.return_value = False  # one error is not too many
    found = sweeper(row, giving_up=giving_up)
    mocked(found.context.queue).send.side_effect = OSError
    leases = mocked(found.context.leases)
    leases.apply.side_effect = lambda change: change.after

    assert found.sweep().failed == 1

    noted, back = (call.args[0] for call in leases.apply.call_args_list)
    assert (noted.before, noted.after.receive.seen_at) == (row, NOW)
    assert back.after.unseen_for(NOW) == row.unseen_for(NOW)


@pytest.mark.parametrize("first_sent_at", [None, LONG_AGO])
def test_the_copy_of_a_lost_message_is_as_old_as_the_message(
    first_sent_at: datetime | None,
) -> None:
    row = released(first_sent_at=first_sent_at)
    found = sweeper(row)
    assert found.sweep().renewed == 1
    copy = renewal(CONTENT, row.receive.chain, row.key, first_sent_at or row.attempt.claimed_at)
    mocked(found.context.queue).send.assert_called_once_with(stage().queue_url, copy)


def test_a_waiting_job_of_a_removed_stage_is_ended_and_not_sent_again() -> None:
    row = released(stage="old", key="old#january")
    found = sweeper(row, removed=("old",))
    report = found.sweep()
    assert (report.finished, report.failed) == (1, 0)
    assert mocked(found.context.leases).apply.call_count == 1
    assert not mocked(found.context.requests).get.called
    assert not mocked(found.context.queue).send.called
    asked = mocked(found.context.slots).blocked_s.call_args_list
    assert [call.args[0].name for call in asked] == ["main"]


@pytest.mark.parametrize(
    ("left_s", "turn_s"), [(70, 10), (900, 60), (None, 60)], ids=["a moment", "minutes", "no end"]
)
def test_a_publication_goes_on_in_the_next_sweep_where_the_time_of_this_one_is_up(
    left_s: int | None, turn_s: int
) -> None:
    """A sweep keeps its last minute for the other checks."""
    row = released(state=State.SUCCEEDED, owed=(Owed.PUBLISH,))
    finisher = Mock()
    finisher.finish.return_value.is_finished = True
    until = None if left_s is None else NOW + left_s * SECOND
    sweeper(row, finisher=finisher).sweep(until)
    finisher.finish.assert_called_once_with(row, NOW + turn_s * SECOND)


def test_a_row_with_times_that_cannot_be_reckoned_with_does_not_end_a_sweep() -> None:
    forged = running(key="main#forged", lease_expires_at=datetime.max.replace(tzinfo=UTC))
    executions = Mock()
    executions.status.return_value = "RUNNING"
    giving_up = Mock()
    giving_up.is_due.return_value = False
    row = running(lease_expires_at=LONG_AGO)
    report = sweeper(forged, row, executions=executions, giving_up=giving_up).sweep()
    assert (report.looked_at, report.failed) == (2, 1)
    executions.status.assert_called_once_with(row.id.execution_name)


@pytest.mark.parametrize(
    ("row", "task_arn", "is_stopped"),
    [
        (running(), "arn:task", False),  # it has not registered yet
        (changed(running(), task_arn="arn:task"), "arn:task", False),
        (changed(running(), task_arn="arn:first"), "arn:second", True),
        (None, "arn:task", True),
        (running(state=State.RELEASED, settled_attempt=1), "arn:task", True),
    ],
    ids=["unregistered", "registered", "a second one", "no row", "settled"],
)
def test_a_task_is_stopped_when_no_lease_is_its_own(
    row: Lease | None, task_arn: str, *, is_stopped: bool
) -> None:
    tasks = Mock()
    tasks.running.return_value = iter([RunningTask(task_arn, running().id)])
    rows = [row] if row else []
    report = sweeper(*rows, tasks=tasks).sweep()
    assert (tasks.stop.called, report.stopped) == (is_stopped, int(is_stopped))


@pytest.mark.parametrize(
    ("state", "is_near"), [(State.RUNNING, 1), (State.RELEASED, 1), (State.DEAD, 0)]
)
def test_only_messages_of_jobs_that_go_on_can_be_lost_at_their_retention(
    state: State, is_near: int
) -> None:
    metrics = Mock()
    old = NOW - timedelta(days=13)
    row = running(state=state, sent_at=old, owed=("delete",) if state is State.DEAD else ())
    sweeper(row, metrics=metrics).sweep()
    values = metrics.put.call_args_list[0].args[0]
    assert values[StageMetric.NEAR_RETENTION] == is_near


class Killed(BaseException):
    """Lambda ends the function: nothing catches that."""


@pytest.mark.parametrize("where", ["row", "list"])
def test_a_row_or_a_list_at_which_the_function_is_killed_does_not_end_every_sweep(
    where: str,
) -> None:
    finisher, publisher, tasks = Mock(), Mock(), Mock()
    done: set[str] = set()

    def finish(row: Lease, _: object) -> Lease:
        if where == "row" and row.key == "main#3":
            raise Killed
        done.add(row.key)
        return row

    def discard(attempt: AttemptId) -> None:
        if where == "list" and attempt.key == "main#3":
            raise Killed
        done.add(f"list of {attempt.key}")

    finisher.finish.side_effect, publisher.discard.side_effect = finish, discard
    keys = [f"main#{n}" for n in range(6)]
    rows = [
        released(key=key, stage="main", state=State.SUCCEEDED, owed=(Owed.DELETE,)) for key in keys
    ]
    lists = [AttemptId(key, 1, 1) for key in keys]
    publisher.listed.side_effect = lambda: iter(lists)
    stray = RunningTask("arn:stray", AttemptId("main#unknown", 1, 1))
    tasks.running.side_effect = lambda: iter([stray])
    late = sweeper(*rows, finisher=finisher, tasks=tasks)
    look_after = Publication(context=late.context, publisher=publisher).look_after
    late = replace(late, features=(look_after,))
    for _ in range(60):
        with suppress(Killed):
            late.sweep()
        late.context.clock.advance(300)  # type: ignore[attr-defined]
    poison = "main#3" if where == "row" else "list of main#3"
    assert done == {*keys, *(f"list of {key}" for key in keys)} - {poison}
    assert tasks.stop.called


def test_what_jobs_have_stored_is_removed_when_their_runs_have_ended() -> None:
    row = running(saved_ref="record", settled_at=NOW)
    rows = {
        state: replace(row, key=f"main#{state.value}", state=state)
        for state in (State.RUNNING, State.SUCCEEDED, State.CANCELLED, State.DEAD)
    }
    saved = Mock()
    saved.jobs.side_effect = lambda: iter(["main#gone", *(each.key for each in rows.values())])
    report = keeping(sweeper(*rows.values()), saved).sweep()
    until = {call.args[0].key: call.args[0] for call in saved.remove.call_args_list}
    assert until.keys() == {"main#gone", "main#SUCCEEDED", "main#CANCELLED"}
    # A run that begins meanwhile keeps what it stores.
    assert until["main#SUCCEEDED"] == rows[State.SUCCEEDED].id
    assert until["main#gone"] > AttemptId("main#gone", 10**15, 10**9)
    assert report.removed == 3


def test_what_an_unreadable_row_may_need_is_kept() -> None:
    leases, saved = Mock(), Mock()
    saved.jobs.return_value = iter(["main#newer"])
    leases.stages.return_value, leases.open_keys.return_value = {"main"}, iter(())
    leases.load_many.side_effect = lambda _: Rows({}, {"main#newer"})
    keeping(sweeper(leases=leases), saved).sweep()
    saved.remove.assert_not_called()
