"""The tables of decisions in `docs/internals/lease.md`, tried cell by cell.

The tables of effects are tried in `tests/handlers`.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from longhaul.core.beat import Beat, End, Extend, HandOver, Kill, decide_beat
from longhaul.core.claim import (
    Cancelled,
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
from longhaul.core.descent import Lineage
from longhaul.core.lease import CommittedOutput, DeadRun, Lease, Owed, State
from longhaul.core.message import Again, JobMessage
from longhaul.core.request import JobRequest
from longhaul.core.settings import LeaseSettings
from longhaul.outputs.pending import decide_pending
from tests.builders import BODY, NOW, changed, message, running
from tests.lease_page import table

IMPOSSIBLE = "\N{EN DASH}"
LATER = NOW + timedelta(minutes=10)
NUMBERS = LeaseSettings()
OTHER_WORK = JobRequest.model_validate({**BODY, "params": {"limit": 1}})


SOON = NOW + timedelta(minutes=1)
EARLIER_CANCEL = NOW - timedelta(hours=1)
DIED_AT = NOW - timedelta(minutes=30)
# A run after a cancel, and after one that died of other work; its message is a copy.
BASE = changed(
    running(),
    message_id="m-1",
    renews="m-0",
    cancelled_at=EARLIER_CANCEL,
    dead_runs=(DeadRun(OTHER_WORK.fingerprint(), DIED_AT),),
    lineage=Lineage(root="main#a", parent="main#b", run=5),
)
MARK: dict[str, Any] = {"cancel_requested_at": NOW, "cancelled_at": NOW}
RELEASED = replace(BASE, state=State.RELEASED, settled_attempt=1, failures=1, retry_at=NOW)
DEAD = replace(BASE, state=State.DEAD, settled_attempt=1, settled_at=NOW)
REFUSED = replace(DEAD, execution_input="", settled_at=SOON + timedelta(milliseconds=1))
CANCELLED = replace(DEAD, state=State.CANCELLED, **MARK)

ROWS: dict[str, Lease | None] = {
    "absent": None,
    "RUNNING": BASE,
    "RUNNING, cancel marked": replace(BASE, **MARK),
    "RELEASED, back-off passed": RELEASED,
    "RELEASED, back-off to come": replace(RELEASED, retry_at=LATER + timedelta(minutes=1)),
    "RELEASED, cancel marked": replace(RELEASED, **MARK),
    "cancel mark before any claim": cancelled_before_claim("main#january", "main", NOW),
    "SUCCEEDED": replace(BASE, state=State.SUCCEEDED, settled_attempt=1),
    "SUCCEEDED, to be published, cancelled since": replace(
        BASE, state=State.SUCCEEDED, settled_attempt=1, cancelled_at=NOW, owed=(Owed.PUBLISH,)
    ),
    "DEAD when it was sent, nothing owed": DEAD,
    "DEAD when it was sent, something owed": replace(DEAD, owed=(Owed.DEAD_LETTER, Owed.DELETE)),
    "DEAD since it was sent": replace(DEAD, settled_at=SOON + timedelta(milliseconds=1)),
    "DEAD, refused without an attempt": REFUSED,
    "CANCELLED, nothing owed": CANCELLED,
    "CANCELLED, something owed": replace(CANCELLED, owed=(Owed.DELETE,)),
}


def sent(at: datetime, **changes: Any) -> JobMessage:
    """A message of another chain."""
    return message(**{"message_id": "m-9", "sent_at": at, "first_sent_at": at, **changes})


def follow_on(run: int, at: datetime) -> JobMessage:
    """By a run of the row's parent."""
    lineage = {"root": "main#a", "parent": "main#b", "run": run}
    request = JobRequest.model_validate({**BODY, "lineage": lineage})
    return sent(SOON, first_sent_at=at, is_follow_on=True, request=request)


MESSAGES: dict[str, JobMessage] = {
    "own message": message(receive_count=2, renews="m-0"),
    "copy": message(message_id="m-2", renews="m-0", sent_at=SOON),
    "replaced": message(message_id="m-0", sent_at=NOW - timedelta(hours=2)),
    "cancelled": sent(EARLIER_CANCEL - timedelta(milliseconds=1), request=OTHER_WORK),
    "follow-on": follow_on(5, NOW - timedelta(minutes=1)),
    "later follow-on": follow_on(6, SOON),
    "again": sent(SOON, again=Again(BASE.run)),
    "again, too late": sent(SOON, again=Again(BASE.run - 1)),
    "outlived": sent(DIED_AT - timedelta(milliseconds=1), request=OTHER_WORK),
    "same work": sent(SOON),
    "other work": sent(SOON, request=OTHER_WORK),
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
        case CancelWaiting(covers=covers):
            return "cancel" if covers else "cancel first"
        case Cancelled():
            return "drop"
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
def test_received_message_leads_to_the_decision_in_the_table(
    row: str, column: str, expected: str
) -> None:
    assert name_of(decide_claim(ROWS[row], MESSAGES[column], NUMBERS, LATER)) == expected


def test_table_has_every_row_and_every_kind_of_message() -> None:
    rows = table("A message is received")
    assert {row["row"] for row in rows} == set(ROWS)
    assert set(rows[0]) == {"row", *MESSAGES}


ALIVE = changed(BASE, progress_at=LATER)
BEATS: dict[str, Lease | None] = {
    "absent": None,
    "RUNNING, mine": ALIVE,
    "RUNNING, mine, no handle": changed(ALIVE, receipt_handle=None),
    "RUNNING, mine, hidden for long enough": changed(
        ALIVE, beats=1, lease_expires_at=LATER + timedelta(seconds=400)
    ),
    "RUNNING, mine, held for 11 h 30 min": changed(
        ALIVE, received_at=LATER - timedelta(hours=11, minutes=30)
    ),
    "RUNNING, mine, cancel marked": replace(ALIVE, **MARK),
    "RUNNING, mine, no progress for stall_timeout": changed(
        ALIVE,
        progress_at=LATER - timedelta(seconds=900),
        beat_ages_s=(round((LATER - NOW).total_seconds()) - 60,),
    ),
    "RUNNING, mine, no progress for stall_timeout, nor a beat": changed(
        ALIVE, progress_at=LATER - timedelta(seconds=900)
    ),
    "RUNNING, mine, no sign of life for start_timeout": changed(
        BASE, progress_at=None, beats=1, beat_ages_s=(0,)
    ),
    "RUNNING, another attempt, mine never settled": changed(ALIVE, attempt=2),
    "RUNNING, another attempt, mine settled": changed(ALIVE, attempt=2, settled_attempt=1),
    "RELEASED": RELEASED,
    "SUCCEEDED": ROWS["SUCCEEDED"],
    "DEAD": DEAD,
    "CANCELLED": CANCELLED,
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
def test_beat_leads_to_the_decision_in_the_table(row: dict[str, str]) -> None:
    assert name_of_beat(decide_beat(BEATS[row["row"]], BASE.id, NUMBERS, LATER)) == row["the beat"]


def test_table_has_every_beat() -> None:
    assert {row["row"] for row in table("A beat")} == set(BEATS)


COMMITTED = changed(BASE, output=CommittedOutput(1, 1, 1, prefix="s3://longhaul-data/out/"))
SUCCEEDED = replace(COMMITTED, state=State.SUCCEEDED, settled_attempt=1, settled_at=NOW)
LISTS: dict[str, Lease | None] = {
    "runs": BASE,
    "has committed, and runs": COMMITTED,
    "has succeeded, and owes its publish": replace(SUCCEEDED, owed=(Owed.PUBLISH, Owed.DELETE)),
    "has published": changed(SUCCEEDED, published_at=LATER),
    "was settled without a commit a moment ago": replace(
        RELEASED, settled_at=LATER - timedelta(seconds=149)
    ),
    "was settled without a commit": replace(RELEASED, settled_at=LATER - timedelta(seconds=150)),
    "has left a dead or cancelled job": replace(DEAD, settled_at=NOW),
    "is older than the row's": changed(BASE, attempt=2),
    "is of an older run": changed(BASE, run=BASE.run + 1, attempt=2),
    "is newer than the row's": changed(BASE, attempt=0),
    "has no row": None,
}


@pytest.mark.parametrize(
    "row", table("What an attempt left pending"), ids=lambda row: row["its attempt"]
)
def test_list_of_pending_uploads_leads_to_the_decision_in_the_table(row: dict[str, str]) -> None:
    assert decide_pending(BASE.id, LISTS[row["its attempt"]], NUMBERS, LATER) == row["the list"]


def test_table_has_every_list() -> None:
    assert {row["its attempt"] for row in table("What an attempt left pending")} == set(LISTS)
