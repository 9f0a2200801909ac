"""What a job has stored: its names, what it is of use for, and how long it stays."""

import json
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from longhaul.core import transitions
from longhaul.core.claim import new_run, next_attempt
from longhaul.core.dead_letter import Reason
from longhaul.core.engine import TINY_TIMEOUT_S
from longhaul.core.lease import AttemptId, Lease, Owed, State, job_key
from longhaul.core.message import Message
from longhaul.core.request import read_request
from longhaul.core.settings import LeaseSettings
from longhaul.core.settlement import MAX_RESUMPTIONS, after_verdict
from longhaul.core.transitions import Clause
from longhaul.core.verdict import OutcomeClass, Verdict
from longhaul.operations.letter import DeadLetter, redriven
from longhaul.saved.record import (
    CHECKPOINTS,
    FolderFile,
    Record,
    SavedDataset,
    SavedFile,
    SavedFolder,
    TableRead,
    Work,
    attempt_folder,
    attempt_of,
    decide_saved,
    job_prefix,
    key_of,
    pinned,
    record_ref,
    why_not,
)
from tests.builders import BODY, NOW, changed, message, running, stage
from tests.lease_page import table

KEYS = st.builds(
    job_key,
    st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True),
    st.from_regex(r"(?!/)[A-Za-z0-9._/-]{1,128}", fullmatch=True),
)
DAY = timedelta(days=1)
WORK = Work("fingerprint", "4.1.0", "code", {"trips": "etags"})


def stored(**changes: Any) -> SavedDataset:
    values = {"place": "1-1/1/", "made_by": "code c", "files": (), "rows": 0, "columns": "{}"}
    return SavedDataset(**{**values, **changes})


def record(**changes: Any) -> Record:
    values = {"fingerprint": "fingerprint", "spark": "4.1.0", "code": "code"}
    return Record(**{**values, "reads": {"trips": "etags"}, **changes})


@given(KEYS, st.integers(0, 10**13), st.integers(1, 10_000))
def test_job_and_attempt_are_read_back_from_names(key: str, run: int, attempt: int) -> None:
    owner = AttemptId(key, run, attempt)
    assert key_of(job_prefix(key)) == key
    assert attempt_of(key, record_ref(owner, 7)) == owner
    assert attempt_of(key, f"{job_prefix(key)}{attempt_folder(owner)}3/part-0.parquet") == owner


def test_names_of_another_form_belong_to_nobody() -> None:
    assert key_of("longhaul/saved/what/") is None
    assert attempt_of("main#a", "longhaul/saved/main!a/what") is None


@pytest.mark.parametrize("place", ["../1-1/1/", "1-1/", "/1-1/1/", "1-1/1", "1-1/1/../", "x"])
def test_a_record_names_nothing_outside_of_its_job(place: str) -> None:
    with pytest.raises(ValidationError):
        stored(place=place)
    with pytest.raises(ValidationError):
        FolderFile(object=f"{place}0/..", size=1, sha256="0" * 64)


def test_a_record_knows_the_objects_that_it_names() -> None:
    part = stored(files=(SavedFile(path="day=1/a.parquet", size=3),))
    file = FolderFile(object="1-2/4/0", size=5, sha256="0" * 64)
    found = record(
        parts={
            ".": {"a": part},
            CHECKPOINTS: {"c": stored(place="1-1/2/", files=(SavedFile(path="b", size=1),))},
        },
        folders={"model": SavedFolder(made_by="code c", files={"x": file, "y": file})},
    )
    assert found.objects == {"1-1/1/day=1/a.parquet": 3, "1-1/2/b": 1, "1-2/4/0": 5}
    assert found.size_bytes == 9


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"code": "other"}, None),  # asked for each thing
        ({"fingerprint": "other"}, "the request is another one"),
        ({"spark": "4.0.0"}, "it was stored by Spark 4.0.0, and this is 4.1.0"),
        ({"reads": {"trips": "others"}}, "input 'trips' has changed since"),
        ({"reads": {}}, "input 'trips' has changed since"),
        ({"reads": {"trips": "etags", "more": "x"}}, "input 'more' has changed since"),
    ],
)
def test_a_record_is_of_use_for_the_same_work_alone(
    changes: dict[str, Any], why: str | None
) -> None:
    assert why_not(record(**changes), WORK) == why


PINS = {"table://lake/events": TableRead(snapshot=7, schema_id=1, base=None)}


@pytest.mark.parametrize(
    ("changes", "files", "is_pinned"),
    [
        ({}, {}, True),
        ({}, {"trips": "etags"}, True),
        ({}, {"trips": "others"}, False),
        ({"fingerprint": "other"}, {}, False),
        ({"spark": "4.0.0"}, {}, False),
        ({"code": "other"}, {}, False),
        ({"code": "other", "parts": {CHECKPOINTS: {"c": stored()}}}, {}, False),
        ({"code": "other", "parts": {CHECKPOINTS: {"c": stored(made_by="version 1")}}}, {}, True),
        ({"code": "other", "folders": {"f": SavedFolder(made_by="version 1")}}, {}, True),
    ],
)
def test_tables_are_read_as_before_where_what_is_stored_may_be_of_use(
    changes: dict[str, Any], files: dict[str, str], *, is_pinned: bool
) -> None:
    found = pinned(record(tables=PINS, **changes), WORK, files)
    assert found == (PINS if is_pinned else {})


@pytest.mark.parametrize(
    ("reason", "afresh"),
    [
        (Reason("invalid_request", "size is not allowed"), True),
        (Reason("failed", "exit code 1", run=1, attempts=3), False),
    ],
    ids=["its run never began", "its run has ended"],
)
def test_the_wish_to_begin_afresh_holds_until_the_run_that_it_was_for(
    reason: Reason, *, afresh: bool
) -> None:
    body = json.dumps({**BODY, "afresh": True})
    letter = DeadLetter("m-2", "handle", NOW, Message(body, {}), reason)

    assert read_request(redriven(letter).body).afresh is afresh


# What outlives an attempt, by the tables of `docs/internals/lease.md`.


TIMING = LeaseSettings()
STORED, BEFORE = (
    "longhaul/saved/main!a/1-2/record-1.json",
    "longhaul/saved/main!a/1-1/record-1.json",
)


def row(**changes: Any) -> Lease:
    """A job whose attempt went on from what another has stored."""
    known = {"saved_ref": BEFORE, "saved_at": NOW, "saved_bytes": 7, "resumes": BEFORE}
    return changed(running(max_attempts=3), **{**known, **changes})


def ended(before: Lease, kind: OutcomeClass) -> Lease:
    verdict = Verdict(kind, "why")
    return after_verdict(before, verdict, stage(), TIMING, NOW, random.Random(1)).lease


TINY = running().input.model_copy(update={"size": "tiny", "timeout_s": TINY_TIMEOUT_S})
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


@pytest.mark.parametrize("changes", [{"timeout_s": TINY_TIMEOUT_S - 1}, {"size": "small"}])
def test_another_job_that_takes_too_long_has_failed(changes: dict[str, Any]) -> None:
    execution = TINY.model_copy(update=changes).model_dump_json()
    before = row(execution_input=execution, saved_ref=STORED)
    assert effect(before, ended(before, OutcomeClass.TIMED_OUT)) == "failure"


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
    assert effect(before, ended(before, kind)) == line["and had stored nothing new"]
    moved = replace(before, saved_ref=STORED)
    assert effect(moved, ended(moved, kind)) == line["and had stored something"]


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
        **{
            f"a new run of the same work, after {state}": (replace(dead, state=state), same, soon)
            for state in (State.CANCELLED, State.SUCCEEDED)
        },
        "a new run of other work": (dead, other, soon),
    }[name]
    old = replace(old, fingerprint=same.request.fingerprint())
    if of is None:
        return next_attempt(old, None, TIMING, when)
    return new_run(old, of, stage(), TIMING, when)


@pytest.mark.parametrize("line", table("What a claim makes of what is stored"))
def test_a_claim_goes_on_as_the_page_says(line: dict[str, str]) -> None:
    after = claimed(line["the claim is of"])
    expected = (BEFORE, NOW, 7) if line["the pointer"] == "stays" else (None, None, 0)
    assert (after.saved_ref, after.saved_at, after.saved_bytes) == expected
    assert after.attempt.resumes == after.saved_ref
    assert not after.has_saved


@pytest.mark.parametrize("line", table("What is removed"))
def test_what_is_stored_is_kept_and_removed_as_the_page_says(line: dict[str, str]) -> None:
    name, now = line["row"], NOW + timedelta(days=15)
    if name == "DEAD for 15 days":
        name = "DEAD"
    else:
        now -= timedelta(milliseconds=1)
    state = name.partition(",")[0]
    found = None
    if state != "absent":
        owed = (Owed.PUBLISH,) if "published" in name else ()
        found = row(state=State(state), settled_attempt=1, settled_at=NOW, owed=owed)
    assert decide_saved(found, now) == line["what is stored"]
