"""The outcome of each end of a task, from payloads that `.sync` really passes to settle."""

from datetime import timedelta
from typing import Any

import pytest

from functions.settle import lambda_handler
from longhaul.core import transitions
from longhaul.core.errors import LeaseChangedError
from longhaul.core.lease import CommittedOutput, Lease
from longhaul.core.transitions import Change
from tests.events import cases, event
from tests.handlers.stack import Context, Stack

TASK = "arn:aws:ecs:us-east-1:123456789012:task/Longhaul/0123"
INTERRUPTED = {
    "emr-cancelled-by-hand",
    "emr-exit-73-superseded",
    "emr-exit-75-told-to-stop",
    "emr-never-started",
    "exit-73-superseded",
    "exit-75-told-to-stop",
    "infrastructure-health",
    "lambda-crashed",
    "lambda-exit-75-told-to-stop",
    "lambda-init-timed-out",
    "lambda-timed-out",
    "spot-interruption",
    "stopped-by-hand",
    "termination-notice",
}
NOT_PLACED = {
    "ecs-unavailable",
    "emr-no-capacity",
    "emr-quota",
    "emr-start-throttled",
    "emr-vcpu-quota",
    "lambda-not-ready",
    "lambda-throttled",
    "no-capacity",
    "provisioning-limit",
    "request-limit",
    "run-task-failures",
    "run-task-throttled",
    "run-task-throttled-in-disguise",
    "subnet-without-addresses",
    "task-quota",
    "vcpu-quota",
}
# Of the rate alone: they slow down the starts, and leave the limit.
THROTTLED = {
    "emr-start-throttled",
    "request-limit",
    "run-task-throttled",
    "run-task-throttled-in-disguise",
}
# Refused for another reason than lack of room. It waits as well, for people.
REFUSED = {
    "emr-start-denied",
    "image-denied",
    "image-gone",
    "image-of-another-platform",
    "image-out-of-reach",
    "lambda-denied",
    "logs-out-of-reach",
    "role-not-assumed",
    "run-task-denied",
    "subnet-gone",
    "task-definition-inactive",
    "task-failed-to-start",
}
HOPELESS = {"cpu-above-the-limit", "task-not-in-this-region"}
PERMANENT = HOPELESS | {
    "after-a-sidecar-without-a-code-exit-65-permanent",
    "emr-exit-65-permanent",
    "exit-65-permanent",
    "lambda-exit-65-permanent",
}
NO_TASK = NOT_PLACED | REFUSED | HOPELESS
COUNTED = {
    "emr-exit-1": "failed",
    "emr-killed-for-memory": "out_of_memory",
    "emr-out-of-memory": "out_of_memory",
    "emr-success": "no_output",
    "exit-0": "no_output",
    "exit-1": "failed",
    "exit-1-after-a-sidecar": "failed",
    "exit-1-before-a-sidecar": "failed",
    "killed": "failed",
    "lambda-exit-1": "failed",
    "lambda-killed": "out_of_memory",
    "lambda-out-of-memory": "out_of_memory",
    "lambda-success": "no_output",
    "out-of-memory": "out_of_memory",
    "out-of-memory-after-a-sidecar": "out_of_memory",
    "out-of-memory-before-a-sidecar": "out_of_memory",
    "stalled": "stalled",
    "timed-out": "timed_out",
}

# By case: what settle says, and the row's class, failures and interruptions.
ENDS = {
    **dict.fromkeys(NOT_PLACED, ("RELEASED", "not_placed", 0, 0)),
    **dict.fromkeys(REFUSED, ("RELEASED", "refused", 0, 0)),
    **dict.fromkeys(INTERRUPTED, ("RELEASED", "interrupted", 0, 1)),
    **dict.fromkeys(PERMANENT, ("DEAD", "permanent", 1, 0)),
    **{case: ("RELEASED", kind, 1, 0) for case, kind in COUNTED.items()},
    "cancelled": ("CANCELLED", "cancelled", 0, 0),
    "exit-74-out-of-disk": ("RELEASED", "out_of_disk", 0, 0),
    # The row contradicts the event: the attempt owns the lease. Settle believes the row.
    "lease-lost": ("RELEASED", "interrupted", 0, 1),
}


def settle(case: str, context: Context) -> str:
    return str(lambda_handler(event("settle", case), context)["outcome"])


def started(stack: Stack, reported_after: timedelta = timedelta(hours=6), **changes: Any) -> None:
    """A task that has made no progress since its start, and reported that until then."""
    lease = stack.claim(**changes)
    stack.parts.leases.report(transitions.register_task(lease.id, TASK, lease.attempt.claimed_at))
    at = lease.attempt.claimed_at
    stack.parts.leases.report(
        transitions.report_progress(lease.id, {"phase": "running"}, at, at + reported_after)
    )


@pytest.mark.parametrize("case", cases("settle"))
def test_end_of_a_task_has_its_outcome(stack: Stack, context: Context, case: str) -> None:
    if case in NO_TASK:
        stack.claim()
    else:
        started(stack)
    outcome = settle(case, context)
    row = stack.row()
    assert (outcome, row.last_class, row.failures, row.interruptions) == ENDS[case]
    if outcome != "RELEASED":
        found = (row.owed, stack.messages(), len(stack.dead_letters()))
        assert found == ((), (0, 0), int(outcome == "DEAD"))
    if case == "exit-74-out-of-disk":
        assert row.input.size == "medium"
    # The slot is free again. After a refusal, the stage has fewer slots for a while.
    assert stack.free_slots() == (5 if case in (NOT_PLACED - THROTTLED) | REFUSED else 10)
    may_still_run = {
        "cancelled",
        "emr-exit-73-superseded",
        "exit-73-superseded",
        "lease-lost",
        "stalled",
        "timed-out",
    }
    assert stack.stopped_tasks == ([TASK] if case in may_still_run else [])


def is_settle(change: Any) -> bool:
    return isinstance(change, Change) and change.gives_slot_back


def test_commit_between_read_and_write_wins(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(stack)
    write = type(stack.parts.leases).apply
    calls: list[str] = []

    def commit_meanwhile(leases: Any, change: Any) -> Lease:
        if is_settle(change):
            calls.append(change.after.state)
        if calls == ["RELEASED"]:
            row = stack.row()
            output = CommittedOutput(1, 0, 0)
            leases.report(transitions.commit(row.id, output))
            leases.report(transitions.mark_published(row.id, row.attempt.claimed_at))
        return write(leases, change)

    monkeypatch.setattr("longhaul.core.store.leases.DynamoLeases.apply", commit_meanwhile)
    assert settle("exit-1", context) == "SUCCEEDED"
    assert calls == ["RELEASED", "SUCCEEDED"]


def test_settle_raises_when_the_row_keeps_changing(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(stack)

    def changed(*_: Any) -> None:
        raise LeaseChangedError(stack.row())

    monkeypatch.setattr("longhaul.core.store.leases.DynamoLeases.apply", changed)
    with pytest.raises(RuntimeError, match="keeps changing"):
        settle("exit-1", context)
