"""What a job between two attempts waits for."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

from longhaul.cli.display.job import page_of, row_of, why_of
from longhaul.domain.lease import Lease, State
from longhaul.domain.pace import SlotUse
from longhaul.domain.waiting import Wait, Waits
from longhaul.settings import LeaseSettings
from tests.builders import NOW, planned, running

TIMING = LeaseSettings()
FREE, FULL = SlotUse(running=3, slots=4), SlotUse(running=4, slots=4)
MINUTE = timedelta(minutes=1)


def released(job_id: str = "a", due: timedelta = -MINUTE, **changes: Any) -> Lease:
    return running(
        key=f"main#{job_id}",
        state=State.RELEASED,
        retry_at=NOW + due,
        last_class="failed",
        last_error="exit code 1",
        **changes,
    )


def waits(use: SlotUse, *rows: Lease) -> Waits:
    return Waits(NOW, TIMING, {"main": use}, rows)


def test_a_back_off_ends_at_its_time() -> None:
    row = released(due=90 * timedelta(seconds=1))
    assert waits(FULL, row).of(row) == Wait("back-off", until=row.retry_at)
    assert why_of(row, NOW, waits(FULL, row)) == "again in 1m30s; failed: exit code 1"


def test_a_planned_job_says_when_it_begins() -> None:
    row = planned(at=NOW + timedelta(days=1, hours=2))
    said = "begins at 2026-01-03 05:04:05Z, in 1d2h"
    assert waits(FULL, row).of(row) == Wait("start", until=row.retry_at)
    assert why_of(row, NOW, waits(FULL, row)) == why_of(row, NOW) == said
    page = dict(page_of(row, NOW, Mock(), "/logs"))
    assert page["waits"] == said
    assert not page.keys() & {"attempt", "execution", "retry"}
    (*_, state, _, attempt, _, _, _) = row_of(row, NOW)
    assert (state, attempt) == ("RELEASED", "")


def test_a_pause_comes_before_all_else_and_has_no_end() -> None:
    row = released(due=MINUTE)
    paused = waits(replace(FREE, paused_at=NOW), row)
    assert paused.of(row) == Wait("pause", since=NOW)
    assert "paused since" in why_of(row, NOW, paused)


def test_a_job_without_a_free_slot_has_its_place_in_the_order_of_its_stage() -> None:
    first, mine, later = released("z", -3 * MINUTE), released("a"), released("b", MINUTE)
    other = released("c", -5 * MINUTE, stage="other")
    full = waits(FULL, first, mine, later, other)
    assert full.of(mine) == Wait("slot", place=2, others=1, slots=4)
    assert why_of(mine, NOW, full).startswith(
        "waits for a slot: 4 of 4 taken, number 2 of 2 between attempts;"
    )


def test_of_too_many_to_read_the_place_is_not_told() -> None:
    row = released(due=-MINUTE)
    among_many = Waits(NOW, TIMING, {"main": FULL}, None)
    assert among_many.of(row) == Wait("slot", slots=FULL.slots)
    taken = f"{FULL.slots} of {FULL.slots} taken"
    assert why_of(row, NOW, among_many).startswith(f"waits for a slot: {taken}; ")


def test_a_message_is_replaced_at_the_latest_after_six_hours_unseen() -> None:
    row = released(due=-MINUTE)
    due_at = NOW - MINUTE
    assert waits(FREE, row).of(row) == Wait("message", until=due_at + timedelta(hours=6))
    seen = replace(row, receive=replace(row.receive, seen_at=NOW))
    assert waits(FREE, seen).of(seen) == Wait("message", until=NOW + timedelta(hours=6))
    assert "which comes within 30m" in why_of(row, NOW, waits(FREE, row))


def test_a_job_that_runs_or_has_ended_waits_for_nothing() -> None:
    assert waits(FULL).of(running()) is None
    assert waits(FULL).of(running(state=State.SUCCEEDED)) is None


def test_without_its_stage_a_job_is_known_to_wait_for_message_and_slot() -> None:
    assert why_of(released(), NOW) == "waits for its message and a slot; failed: exit code 1"
