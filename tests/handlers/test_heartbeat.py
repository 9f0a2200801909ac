from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.heartbeat import lambda_handler
from longhaul.domain.lease import State
from tests.events import cases, event
from tests.handlers.conftest import Context, Stack


def beat(context: Context, case: str = "first-beat") -> dict[str, Any]:
    return dict(lambda_handler(event("heartbeat", case), context))


@pytest.mark.parametrize("case", cases("heartbeat"))
def test_beat_extends_the_message_of_a_running_job(
    stack: Stack, context: Context, case: str
) -> None:
    stack.claim()
    assert beat(context, case) == {"next": "wait", "wait_s": 15, "cause": ""}
    row = stack.row()
    assert row.attempt.beats == 1
    assert row.attempt.lease_expires_at is not None
    assert row.attempt.lease_expires_at > stack.parts.clock.now() + timedelta(seconds=60)
    assert stack.messages() == (0, 1)


def test_beat_with_a_handle_that_no_longer_holds_the_message_keeps_up_the_row(
    stack: Stack, context: Context
) -> None:
    stack.claim(receipt_handle="stale")
    assert beat(context)["next"] == "wait"
    assert stack.row().attempt.beats == 1


def test_beat_of_an_attempt_that_lost_its_lease_names_the_holder_and_writes_nothing(
    stack: Stack, context: Context
) -> None:
    stack.claim(attempt=2)
    before = stack.row()
    answer = beat(context)
    assert (answer["next"], answer["cause"]) == (
        "LeaseLost",
        f"the lease is held by run {before.run}, attempt 2 (RUNNING)",
    )
    assert stack.row() == before


def test_beat_that_overwrites_the_back_off_of_a_settle_restores_it(
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

    monkeypatch.setattr("longhaul.adapters.sqs.SqsQueue.set_visibility", settle_meanwhile)
    assert beat(context)["next"] == "end"
    assert asked[0] == 79
    assert asked[1:] == [7]
