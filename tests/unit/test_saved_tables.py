"""What outlives an attempt, by the tables of `docs/internals/lease.md`."""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from longhaul.core import transitions
from longhaul.core.claim import new_run, next_attempt
from longhaul.core.lease import Lease, Owed, State
from longhaul.core.settings import LeaseSettings
from longhaul.core.settlement import MAX_RESUMPTIONS, after_verdict
from longhaul.core.transitions import Clause
from longhaul.core.verdict import OutcomeClass, Verdict
from longhaul.engines.aws_lambda.ends import MAX_TIMEOUT_S, SIZE
from longhaul.saved.record import decide_saved
from tests.builders import NOW, changed, message, running, stage
from tests.lease_page import table

TIMING = LeaseSettings()
STORED, BEFORE = (
    "longhaul/saved/main!a/1-2/record-1.json",
    "longhaul/saved/main!a/1-1/record-1.json",
)


def row(**changes: Any) -> Lease:
    """A job whose attempt went on from what another has stored."""
    known = {"saved_ref": BEFORE, "saved_at": NOW, "saved_bytes": 7, "resumes": BEFORE}
    return changed(running(max_attempts=3), **{**known, **changes})


def settled(before: Lease, kind: OutcomeClass) -> Lease:
    verdict = Verdict(kind, "why")
    return after_verdict(before, verdict, stage(), TIMING, NOW, random.Random(1)).lease


TINY = running().input.model_copy(update={"size": SIZE, "timeout_s": MAX_TIMEOUT_S})
ATTEMPTS = {
    "interrupted": (row(), OutcomeClass.INTERRUPTED),
    "interrupted, after 100 resumptions": (
        row(resumptions=MAX_RESUMPTIONS),
        OutcomeClass.INTERRUPTED,
    ),
    "tiny, and stopped at a function's longest time": (
        row(execution_input=TINY.model_dump_json()),
        OutcomeClass.TIMED_OUT,
    ),
    "failed": (row(), OutcomeClass.FAILED),
    "failed for the last time": (row(failures=2), OutcomeClass.FAILED),
}


def effect(before: Lease, after: Lease) -> str:
    counted = [
        name
        for name in ("resumption", "interruption", "failure")
        if getattr(after, f"{name}s") == getattr(before, f"{name}s") + 1
    ]
    if after.state is State.DEAD:
        counted.append("dead")
    assert (after.saved_ref, after.saved_at) == (before.saved_ref, before.saved_at)
    return ", ".join(counted)


def test_a_save_requires_what_the_page_says() -> None:
    requires = [
        {*transitions.save(row().id, known, STORED, 1, NOW).requires} for known in (None, BEFORE)
    ]
    common = {Clause.RUNNING, Clause.MINE, Clause.UNCOMMITTED, Clause.NOT_CANCELLED}
    assert requires == [common | {Clause.SAME_SAVED}] * 2
    listed = {each["it requires"].partition(",")[0] for each in table("A save")}
    assert listed == {*requires[0], *requires[1]}


@pytest.mark.parametrize("line", table("What a settle makes of what is stored"))
def test_a_settle_counts_as_the_page_says(line: dict[str, str]) -> None:
    before, kind = ATTEMPTS[line["the attempt was"]]
    assert effect(before, settled(before, kind)) == line["and had stored nothing new"]
    moved = replace(before, saved_ref=STORED)
    assert effect(moved, settled(moved, kind)) == line["and had stored something"]


def test_the_settles_of_the_page_are_those_that_are_tried() -> None:
    lines = table("What a settle makes of what is stored")
    assert {each["the attempt was"] for each in lines} == {*ATTEMPTS}


def claimed(name: str) -> Lease:
    dead = row(state=State.DEAD, settled_attempt=1, settled_at=NOW)
    soon = NOW + timedelta(days=14) - timedelta(milliseconds=1)
    same = message(sent_at=NOW + timedelta(minutes=1))
    afresh = replace(same, request=same.request.model_copy(update={"afresh": True}))
    other = replace(same, request=same.request.model_copy(update={"params": {"of": "others"}}))
    old, of, when = {
        "the next attempt": (row(state=State.RELEASED), None, soon),
        "a new run of the same work, after DEAD": (dead, same, soon),
        "a new run of the same work, after DEAD, `afresh`": (dead, afresh, soon),
        "a new run of the same work, 14 days after DEAD": (dead, same, NOW + timedelta(days=14)),
        "a new run of the same work, after CANCELLED": (
            replace(dead, state=State.CANCELLED),
            same,
            soon,
        ),
        "a new run of other work": (dead, other, soon),
    }[name]
    old = replace(old, fingerprint=same.request.fingerprint())
    if of is None:
        return next_attempt(old, None, TIMING, when)
    return new_run(old, of, stage(), TIMING, when)


@pytest.mark.parametrize("line", table("What a claim makes of what is stored"))
def test_a_claim_goes_on_as_the_page_says(line: dict[str, str]) -> None:
    after = claimed(line["the claim is of"])
    expected = (BEFORE, 7) if line["the pointer"] == "stays" else (None, 0)
    assert (after.saved_ref, after.saved_bytes) == expected
    assert after.attempt.resumes == after.saved_ref
    assert not after.has_saved


@pytest.mark.parametrize("line", table("What is removed"))
def test_what_is_stored_is_kept_and_removed_as_the_page_says(line: dict[str, str]) -> None:
    name, now = line["row"], NOW
    if name == "DEAD for 15 days":
        name, now = "DEAD", NOW + timedelta(days=15)
    state = name.partition(",")[0]
    found = None
    if state != "absent":
        owed = (Owed.PUBLISH,) if "published" in name else ()
        found = row(state=State(state), settled_attempt=1, settled_at=NOW, owed=owed)
    assert decide_saved(found, now) == line["what is stored"]
