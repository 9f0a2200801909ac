from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.sweeper import lambda_handler
from longhaul.core import transitions
from longhaul.core.claim import Claim
from longhaul.core.lease import Lease, State
from longhaul.core.ports import RunningTask
from tests.builders import changed
from tests.events import cases, event
from tests.handlers.stack import Context, Stack


def sweep(context: Context, case: str = "schedule") -> dict[str, Any]:
    return dict(lambda_handler(event("sweeper", case), context))


def overdue(stack: Stack) -> Lease:
    """A lease that ended an hour ago."""
    return stack.claim(lease_expires_at=stack.parts.clock.now() - timedelta(hours=1))


@pytest.mark.parametrize(
    "case", [case for case in cases("sweeper") if case.startswith("execution-")]
)
def test_event_of_an_execution_that_ended_unsettled_settles_its_attempt(
    stack: Stack, context: Context, case: str
) -> None:
    stack.claim()
    assert sweep(context, case) == {"outcome": "RELEASED"}
    assert (stack.row().state, stack.row().interruptions) == (State.RELEASED, 1)


def test_event_of_a_release_does_not_set_the_back_off_again(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = stack.claim()
    now = stack.parts.clock.now()
    released = replace(lease, state=State.RELEASED, settled_attempt=1, failures=1, settled_at=now)
    stack.parts.leases.apply(
        transitions.settle(lease, replace(released, retry_at=now + timedelta(seconds=150)))
    )
    given: list[int] = []
    monkeypatch.setattr(
        "longhaul.core.queue.SqsQueue.set_visibility", lambda *asked: given.append(asked[-1])
    )

    assert sweep(context, "released") == {"outcome": "RELEASED"}
    assert given == []
    # Without the error's name, it is unknown whether settle set the back-off: set it again.
    assert sweep(context, "execution-failed") == {"outcome": "RELEASED"}
    assert len(given) == 1


def test_row_that_fails_does_not_block_the_others(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = overdue(stack)
    stack.parts.leases.apply(
        transitions.claim(
            Claim(replace(lease, key="main#bad"), replaces=None), stack.settings.stages[0]
        )
    )
    status = type(stack.parts.executions).status

    def failing(self: Any, name: str) -> Any:
        if name == replace(lease, key="main#bad").id.execution_name:
            raise TimeoutError
        return status(self, name)

    monkeypatch.setattr("longhaul.core.executions.SfnExecutions.status", failing)
    report = sweep(context)
    assert (report["looked_at"], report["started"], report["failed"]) == (2, 1, 1)


def test_sweep_stops_each_task_that_no_running_lease_names(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = stack.claim()
    stack.parts.leases.report(
        transitions.register_task(lease.id, "arn:task/registered", lease.attempt.claimed_at)
    )
    released = changed(lease, key="main#released", task_arn="arn:task/released")
    stack.parts.leases.apply(
        transitions.claim(Claim(released, replaces=None), stack.settings.stages[0])
    )
    stack.parts.leases.apply(
        transitions.settle(released, replace(released, state=State.RELEASED, settled_attempt=1))
    )
    tasks = [
        RunningTask("arn:task/released", released.id),
        RunningTask("arn:task/registered", lease.id),
        RunningTask("arn:task/second", lease.id),
        RunningTask("arn:task/older", replace(lease.id, attempt=0)),
        RunningTask("arn:task/unknown", replace(lease.id, key="main#unknown")),
    ]
    monkeypatch.setattr("longhaul.engines.fargate.tasks.EcsTasks.running", lambda _: iter(tasks))
    assert sweep(context)["stopped"] == 4
    names = ("released", "second", "older", "unknown")
    assert stack.stopped_tasks == [f"arn:task/{name}" for name in names]
