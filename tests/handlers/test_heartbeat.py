from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.heartbeat import lambda_handler
from longhaul.core import transitions
from longhaul.core.beat import interval_s
from longhaul.core.lease import State
from tests.builders import message
from tests.events import cases, event
from tests.handlers.life import Life
from tests.handlers.stack import Context, Stack, deployed


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


def test_beat_of_an_attempt_that_has_settled_ends_its_branch(
    stack: Stack, context: Context
) -> None:
    lease = stack.claim()
    stack.parts.leases.apply(
        transitions.settle(lease, replace(lease, state=State.RELEASED, settled_attempt=1))
    )
    assert beat(context) == {"next": "end", "wait_s": 0, "cause": ""}


def test_message_that_sqs_holds_no_longer_is_handed_over_whatever_the_row_says(
    stack: Stack, context: Context
) -> None:
    lease = stack.claim()
    handle = lease.receive.receipt_handle or ""
    stack.parts.queue.set_visibility(stack.jobs_url, handle, 43_195)
    stack.aws.clock.advance(43_180)
    now = stack.parts.clock.now()
    lease = replace(lease, receive=replace(lease.receive, receipt_handle=None))
    stack.parts.leases.report(
        transitions.adopt(
            lease,
            message(
                "x",
                lease.receive.message_id,
                received_at=now,
                receipt_handle=handle,
                receive_count=2,
            ),
        )
    )
    stack.parts.leases.report(transitions.report_progress(lease.id, {}, now, now))

    assert beat(context) == {"next": "wait", "wait_s": 300, "cause": ""}
    assert stack.row().receive.receipt_handle is None
    assert stack.messages() == (1, 0)


# A claimed message stays invisible until its first beat, however late the settings let that be.


@pytest.mark.parametrize("floor_s", [15, 60, 120, 300])
def test_the_message_stays_invisible_until_the_first_beat_has_come(
    output: Path, floor_s: int
) -> None:
    with deployed(lease={"beat_floor_s": floor_s}) as stack:
        life = Life(stack, output)
        row = life.running("january")
        # A beat that is as late as the margin allows.
        stack.aws.clock.advance(interval_s(0, stack.settings.lease) + 30)
        assert stack.messages() == (0, 1)
        life.beat(row)
        stack.aws.clock.advance(floor_s + 30)
        assert stack.messages() == (0, 1)
