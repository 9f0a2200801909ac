from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.sweeper import lambda_handler
from longhaul.domain.claim import Claim
from longhaul.domain.lease import Lease, Owed, State
from longhaul.ports import RunningTask
from tests.events import cases, event
from tests.handlers.conftest import Context, Stack


def sweep(context: Context, case: str = "schedule") -> dict[str, Any]:
    return dict(lambda_handler(event("sweeper", case), context))


def overdue(stack: Stack) -> Lease:
    """A lease that nobody has renewed for an hour."""
    return stack.claim(lease_expires_at=stack.parts.clock.now() - timedelta(hours=1))


@pytest.mark.parametrize("case", [case for case in cases("sweeper") if case.startswith("execution-")])
def test_an_execution_that_ended_unsettled_is_settled_within_seconds(stack: Stack, context: Context, case: str) -> None:
    stack.claim()
    assert sweep(context, case) == {"outcome": "RELEASED"}
    assert (stack.row().state, stack.row().interruptions) == (State.RELEASED, 1)


def test_an_execution_that_settled_and_then_failed_as_it_should_changes_nothing(stack: Stack, context: Context) -> None:
    lease = stack.claim()
    ended = replace(lease, state=State.RELEASED, settled_attempt=1, failures=1, retry_at=lease.claimed_at)
    stack.parts.leases.settle(lease, ended)
    assert sweep(context, "execution-failed") == {"outcome": "RELEASED"}
    assert stack.row() == ended


def test_the_back_off_that_a_settle_gave_is_not_given_again(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = stack.claim()
    now = stack.parts.clock.now()
    released = replace(lease, state=State.RELEASED, settled_attempt=1, failures=1, settled_at=now)
    stack.parts.leases.settle(lease, replace(released, retry_at=now + timedelta(seconds=150)))
    given: list[int] = []
    monkeypatch.setattr("longhaul.adapters.sqs_queue.SqsQueue.set_visibility", lambda *asked: given.append(asked[-1]))

    assert sweep(context, "released") == {"outcome": "RELEASED"}
    assert given == []
    # Without the name of the error nobody knows whether settle came so far.
    assert sweep(context, "execution-failed") == {"outcome": "RELEASED"}
    assert len(given) == 1


def test_a_lease_kept_up_is_left_alone(stack: Stack, context: Context) -> None:
    lease = stack.claim(lease_expires_at=stack.parts.clock.now() + timedelta(minutes=5))
    assert {what: count for what, count in sweep(context).items() if count} == {"looked_at": 1}
    assert stack.row() == lease


def test_an_overdue_lease_whose_execution_closed_is_settled(stack: Stack, context: Context) -> None:
    lease = overdue(stack)
    stack.parts.executions.ensure_started(lease.id.execution_name, lease.execution_input)
    stack.sfn.stop_execution(executionArn=stack.parts.executions.arn(lease.id.execution_name))
    assert sweep(context)["settled"] == 1
    assert stack.row().state is State.RELEASED


def test_an_overdue_lease_whose_execution_runs_is_left_to_its_heartbeat(stack: Stack, context: Context) -> None:
    lease = overdue(stack)
    stack.parts.executions.ensure_started(lease.id.execution_name, lease.execution_input)
    assert sweep(context)["settled"] == 0
    assert stack.row().state is State.RUNNING


def test_a_claimed_job_that_was_never_started_is_started(stack: Stack, context: Context) -> None:
    lease = overdue(stack)
    assert sweep(context)["started"] == 1
    assert stack.executions() == [lease.execution_input]


def test_what_is_owed_is_done(stack: Stack, context: Context) -> None:
    lease = stack.claim()
    stack.parts.leases.settle(
        lease,
        replace(lease, state=State.DEAD, settled_attempt=1, owed=(Owed.DEAD_LETTER, Owed.DELETE), last_class="failed"),
    )
    assert sweep(context)["finished"] == 1
    assert stack.row().is_finished
    assert len(stack.dead_letters()) == 1
    assert stack.messages() == (0, 0)
    assert sweep(context)["looked_at"] == 0


def test_one_bad_row_never_blocks_the_rest(stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = overdue(stack)
    stack.parts.leases.claim(Claim(replace(lease, key="main#bad"), replaces=None), stack.settings.stages[0])
    status = type(stack.parts.executions).status

    def failing(self: Any, name: str) -> Any:
        if name == replace(lease, key="main#bad").id.execution_name:
            raise TimeoutError
        return status(self, name)

    monkeypatch.setattr("longhaul.adapters.sfn_executions.SfnExecutions.status", failing)
    report = sweep(context)
    assert (report["looked_at"], report["started"], report["failed"]) == (2, 1, 1)


def test_a_task_without_a_live_lease_is_stopped_and_one_with_it_is_not(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = stack.claim()
    stack.parts.leases.register_task(lease.id, "arn:task/registered", lease.claimed_at)
    tasks = [
        RunningTask("arn:task/registered", lease.id),
        RunningTask("arn:task/second", lease.id),
        RunningTask("arn:task/older", replace(lease.id, attempt=0)),
        RunningTask("arn:task/unknown", replace(lease.id, key="main#unknown")),
    ]
    monkeypatch.setattr("longhaul.adapters.ecs_tasks.EcsTasks.running", lambda _: iter(tasks))
    assert sweep(context)["stopped"] == 3
    assert stack.stopped_tasks == ["arn:task/second", "arn:task/older", "arn:task/unknown"]
