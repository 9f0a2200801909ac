"""What a job between two attempts waits for, and how that reads."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.cli.display.job import page_of, row_of, why_of
from longhaul.core.lease import Lease, State
from longhaul.core.pace import SlotUse, Wait, wait_of
from longhaul.core.settings import LeaseSettings
from longhaul.operations.view import JobStatus, job_status
from tests.builders import NOW, planned, running, settings

FREE, FULL = SlotUse(running=3, slots=4), SlotUse(running=4, slots=4)
PAUSED = replace(FREE, paused_at=NOW)
MINUTE = timedelta(minutes=1)


def released(due: timedelta = -MINUTE, **changes: Any) -> Lease:
    error = {"last_class": "failed", "last_error": "exit code 1"}
    return running(state=State.RELEASED, retry_at=NOW + due, **error, **changes)


def status(row: Lease, use: SlotUse) -> JobStatus:
    return job_status(row, settings(), Mock(), NOW, {row.stage: use})


@pytest.mark.parametrize(
    ("row", "use", "wait", "why"),
    [
        (released(1.5 * MINUTE), FULL, Wait("back-off", NOW + 1.5 * MINUTE), "again in 1m30s; f"),
        # A pause comes before all but the end, and has none.
        (released(MINUTE), PAUSED, Wait("pause"), "waits for its stage, which is paused: "),
        (released(), FULL, Wait("slot"), "waits for a slot: all of its stage are taken; failed: "),
        (
            released(),
            FREE,
            Wait("message", NOW - MINUTE + timedelta(hours=6)),
            "waits for its message; were it lost, a copy is sent after 2026-01-02 09:03:05Z; f",
        ),
        (running(), FULL, None, ""),
        (running(state=State.SUCCEEDED), FULL, None, ""),
    ],
)
def test_it_is_told_with_its_end(row: Lease, use: SlotUse, wait: Wait | None, why: str) -> None:
    assert wait_of(row, use, LeaseSettings(), NOW) == wait
    assert why_of(status(row, use), NOW).startswith(why)


def test_a_planned_job_says_when_it_begins() -> None:
    row = planned(at=NOW + timedelta(days=1, hours=2))
    said, job = "begins at 2026-01-03 05:04:05Z, in 1d2h", status(row, FULL)
    assert why_of(job, NOW) == said
    page = dict(page_of(job, NOW))
    assert page["waits"] == said
    assert not page.keys() & {"attempt", "execution"}
    (*_, state, _, attempt, _, _, _) = row_of(job, NOW)
    assert (state, attempt) == ("RELEASED", "")


def test_a_message_that_was_seen_since_is_replaced_later() -> None:
    row = released()
    seen = replace(row, receive=replace(row.receive, seen_at=NOW))
    hours = timedelta(hours=6)
    assert wait_of(seen, FREE, LeaseSettings(), NOW) == Wait("message", NOW + hours)
    assert wait_of(seen, None, LeaseSettings(), NOW) == Wait("message", NOW + hours)
