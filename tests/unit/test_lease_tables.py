"""The tables of decisions in `docs/lease.md`, cell by cell: the page cannot say what the code does not do. Those of effects are in `tests/handlers`."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.domain.beat import Beat, End, Extend, HandOver, Kill, decide_beat
from longhaul.domain.claim import (
    CancelWaiting,
    Claim,
    Conflict,
    Decision,
    Duplicate,
    Finish,
    Postpone,
    Probe,
    cancelled_before_claim,
    decide_claim,
)
from longhaul.domain.lease import CommittedOutput, Lease, Message, Owed, State
from longhaul.domain.pending import fate, pending_ref
from longhaul.domain.request import JobRequest
from longhaul.settings import LeaseSettings
from tests.builders import BODY, NOW, message, running, stage
from tests.lease_page import table

IMPOSSIBLE = "\N{EN DASH}"
LATER = NOW + timedelta(minutes=10)
NUMBERS = LeaseSettings()
OTHER_WORK = JobRequest.model_validate({**BODY, "params": {"limit": 1}})


BASE = replace(running(), former_message_ids=("m-0",))
RELEASED = replace(BASE, state=State.RELEASED, settled_attempt=1, failures=1, retry_at=NOW)
DEAD = replace(BASE, state=State.DEAD, settled_attempt=1)

ROWS: dict[str, Lease | None] = {
    "absent": None,
    "RUNNING": BASE,
    "RUNNING, cancel marked": replace(BASE, cancel_requested_at=NOW),
    "RELEASED, back-off passed": RELEASED,
    "RELEASED, back-off to come": replace(RELEASED, retry_at=LATER + timedelta(minutes=1)),
    "RELEASED, cancel marked": replace(RELEASED, cancel_requested_at=NOW),
    "cancel mark before any claim": cancelled_before_claim("main#january", "main", NOW),
    "SUCCEEDED": replace(BASE, state=State.SUCCEEDED, settled_attempt=1),
    "DEAD, nothing owed": DEAD,
    "DEAD, something owed": replace(DEAD, owed=(Owed.DEAD_LETTER, Owed.DELETE)),
    "CANCELLED, nothing owed": replace(DEAD, state=State.CANCELLED),
}
MESSAGES: dict[str, Message] = {
    "own message": message(receive_count=2),
    "copy": message(message_id="m-9", renews="m-1"),
    "former": message(message_id="m-0"),
    "same work": message(message_id="m-9"),
    "other work": message(message_id="m-9", request=OTHER_WORK),
}


def name_of(decision: Decision) -> str:
    match decision:
        case Claim(replaces=before) if before is not None and decision.starts_run:
            return "new run"
        case Claim():
            return "claim"
        case Probe():
            return "probe"
        case Finish(own=own):
            return "finish" if own else "finish first"
        case CancelWaiting():
            return "cancel"
        case Postpone():
            return "postpone"
        case Duplicate():
            return "duplicate"
        case Conflict():
            return "conflict"


def cells() -> Iterator[tuple[str, str, str]]:
    for row in table("A message is received"):
        for column in MESSAGES:
            if row[column] != IMPOSSIBLE:
                yield row["row"], column, row[column]


@pytest.mark.parametrize(("row", "column", "expected"), list(cells()))
def test_a_received_message_means_what_the_page_says(row: str, column: str, expected: str) -> None:
    assert name_of(decide_claim(ROWS[row], MESSAGES[column], stage(), NUMBERS, LATER)) == expected


def test_the_page_has_every_row_and_every_kind_of_message() -> None:
    rows = table("A message is received")
    assert {row["row"] for row in rows} == set(ROWS)
    assert set(rows[0]) == {"row", *MESSAGES}


ALIVE = replace(BASE, progress_at=LATER)
BEATS: dict[str, Lease | None] = {
    "absent": None,
    "RUNNING, mine": ALIVE,
    "RUNNING, mine, no handle": replace(ALIVE, receipt_handle=None),
    "RUNNING, mine, held for 11 h 30 min": replace(ALIVE, received_at=LATER - timedelta(hours=11, minutes=30)),
    "RUNNING, mine, cancel marked": replace(ALIVE, cancel_requested_at=NOW),
    "RUNNING, mine, no progress for stall_timeout": replace(
        ALIVE, progress_at=LATER - timedelta(seconds=900), beat_ages_s=(round((LATER - NOW).total_seconds()),)
    ),
    "RUNNING, mine, no progress for stall_timeout, nor a beat": replace(
        ALIVE, progress_at=LATER - timedelta(seconds=900)
    ),
    "RUNNING, mine, no sign of life for start_timeout": replace(BASE, progress_at=None),
    "RUNNING, another attempt, mine never settled": replace(ALIVE, attempt=2),
    "RUNNING, another attempt, mine settled": replace(ALIVE, attempt=2, settled_attempt=1),
    "RELEASED": RELEASED,
    "SUCCEEDED": ROWS["SUCCEEDED"],
    "DEAD": DEAD,
    "CANCELLED": ROWS["CANCELLED, nothing owed"],
}


def name_of_beat(beat: Beat) -> str:
    match beat:
        case End():
            return "end"
        case Kill(reason=reason):
            return reason
        case HandOver():
            return "hand over"
        case Extend(receipt_handle=handle):
            return "extend" if handle else "keep up the row"


@pytest.mark.parametrize("row", table("A beat"), ids=lambda row: row["row"])
def test_a_beat_does_what_the_page_says(row: dict[str, str]) -> None:
    assert name_of_beat(decide_beat(BEATS[row["row"]], BASE.id, NUMBERS, LATER)) == row["the beat"]


def test_the_page_has_every_beat() -> None:
    assert {row["row"] for row in table("A beat")} == set(BEATS)


COMMITTED = replace(BASE, output=CommittedOutput(1, pending_ref(BASE.id), "s3://longhaul-data/out/", 1, 1))
SUCCEEDED = replace(COMMITTED, state=State.SUCCEEDED, settled_attempt=1, settled_at=NOW)
LISTS: dict[str, Lease | None] = {
    "runs": BASE,
    "has committed, and runs": COMMITTED,
    "has succeeded, and owes its publish": replace(SUCCEEDED, owed=(Owed.PUBLISH, Owed.DELETE)),
    "has published": replace(SUCCEEDED, published_at=LATER),
    "was settled without a commit a moment ago": replace(RELEASED, settled_at=LATER - timedelta(seconds=149)),
    "was settled without a commit": replace(RELEASED, settled_at=LATER - timedelta(seconds=150)),
    "has left a dead or cancelled job": replace(DEAD, settled_at=NOW),
    "is older than the row's": replace(BASE, attempt=2),
    "is of an older run": replace(BASE, run=BASE.run + 1, attempt=2),
    "is newer than the row's": replace(BASE, attempt=0),
    "has no row": None,
}


@pytest.mark.parametrize("row", table("What an attempt left pending"), ids=lambda row: row["its attempt"])
def test_a_list_of_pending_uploads_becomes_what_the_page_says(row: dict[str, str]) -> None:
    assert fate(BASE.id, LISTS[row["its attempt"]], NUMBERS, LATER) == row["the list"]


def test_the_page_has_every_list() -> None:
    assert {row["its attempt"] for row in table("What an attempt left pending")} == set(LISTS)
