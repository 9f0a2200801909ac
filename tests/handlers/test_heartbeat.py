import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.heartbeat import lambda_handler
from longhaul.domain.lease import State
from tests.builders import message
from tests.events import cases, event
from tests.handlers.conftest import Context, Stack


def beat(context: Context, case: str = "first-beat") -> dict[str, Any]:
    return dict(lambda_handler(event("heartbeat", case), context))


@pytest.mark.parametrize("case", cases("heartbeat"))
def test_a_beat_extends_the_message_of_a_living_job(stack: Stack, context: Context, case: str) -> None:
    stack.claim()
    assert beat(context, case) == {"next": "wait", "wait_s": 15, "cause": ""}
    row = stack.row()
    assert row.beats == 1
    assert row.lease_expires_at is not None
    assert row.lease_expires_at > stack.parts.clock.now() + timedelta(seconds=60)
    assert stack.messages() == (0, 1)


def test_a_handle_that_no_longer_holds_the_message_does_not_harm_the_job(stack: Stack, context: Context) -> None:
    stack.claim(receipt_handle="stale")
    assert beat(context)["next"] == "wait"
    assert stack.row().beats == 1


def test_a_message_held_too_long_is_handed_over(stack: Stack, context: Context) -> None:
    lease = stack.claim()
    long_ago = lease.claimed_at - timedelta(hours=11, minutes=30)
    again = message(
        message_id=lease.message_id, receipt_handle=lease.receipt_handle, receive_count=2, received_at=long_ago
    )
    stack.parts.leases.adopt(lease, again)
    assert beat(context)["next"] == "wait"
    assert stack.row().receipt_handle is None
    deadline = time.monotonic() + 10  # moto looks at its clock once a second
    while stack.messages() != (1, 0):
        assert time.monotonic() < deadline
    assert beat(context)["next"] == "wait"  # without a handle only the row is kept up
    assert stack.row().beats == 1


def test_the_branch_ends_at_the_beat_after_the_job_settled(stack: Stack, context: Context) -> None:
    lease = stack.claim()
    stack.parts.leases.settle(lease, replace(lease, state=State.SUCCEEDED, settled_attempt=1))
    assert beat(context) == {"next": "end", "wait_s": 0, "cause": ""}


def test_a_beat_of_an_attempt_that_lost_its_lease_kills_only_itself(stack: Stack, context: Context) -> None:
    stack.claim(attempt=2)
    before = stack.row()
    answer = beat(context)
    assert (answer["next"], answer["cause"]) == (
        "LeaseLost",
        f"the lease is held by run {before.run}, attempt 2 (RUNNING)",
    )
    assert stack.row() == before


def test_a_job_without_a_row_has_lost_its_lease(stack: Stack, context: Context) -> None:  # noqa: ARG001 - deployed
    assert beat(context)["next"] == "LeaseLost"


def test_a_stalled_job_is_ended(stack: Stack, context: Context) -> None:
    lease = stack.claim(stall_timeout_s=30)
    stack.parts.leases.register_task(lease.id, "arn:task", lease.claimed_at)
    # The first that the row takes: until then it may have taken no report either.
    assert beat(context)["next"] == "wait"
    assert beat(context)["next"] == "JobStalled"


def test_a_beat_that_crosses_a_settle_gives_the_retry_its_back_off_again(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = stack.claim()
    extend = type(stack.parts.queue).set_visibility
    asked: list[int] = []

    def settle_meanwhile(queue: Any, url: str, handle: str, seconds: int) -> Any:
        answer = extend(queue, url, handle, seconds)
        asked.append(seconds)
        if len(asked) == 1:
            now = stack.parts.clock.now()
            released = replace(lease, state=State.RELEASED, settled_attempt=1, settled_at=now)
            stack.parts.leases.settle(lease, replace(released, retry_at=now + timedelta(seconds=7)))
        return answer

    monkeypatch.setattr("longhaul.adapters.sqs_queue.SqsQueue.set_visibility", settle_meanwhile)
    assert beat(context)["next"] == "end"
    assert asked[0] == 79
    assert asked[1:] == [7]
