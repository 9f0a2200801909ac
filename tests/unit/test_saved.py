"""What a job has stored: its names, what it is of use for, and how long it stays."""

import json
import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from longhaul.core import transitions
from longhaul.core.claim import KEPT_FOR_REDRIVE, Claim, decide_claim, new_run, next_attempt
from longhaul.core.dead_letter import Reason
from longhaul.core.lease import AttemptId, Lease, Owed, State, job_key
from longhaul.core.message import Message
from longhaul.core.request import JobRequest, read_request
from longhaul.core.settings import LeaseSettings
from longhaul.core.settlement import MAX_RESUMPTIONS, after_verdict
from longhaul.core.transitions import Clause
from longhaul.core.verdict import OutcomeClass, Verdict
from longhaul.engines.aws_lambda.ends import MAX_TIMEOUT_S, SIZE
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


@pytest.mark.parametrize(
    ("state", "owed", "after", "decision"),
    [
        (State.RUNNING, (), 99 * DAY, "keep"),
        (State.RELEASED, (), 99 * DAY, "keep"),
        (State.SUCCEEDED, (Owed.PUBLISH, Owed.DELETE), 99 * DAY, "keep"),
        (State.SUCCEEDED, (Owed.DELETE,), 0 * DAY, "remove"),
        (State.CANCELLED, (Owed.DELETE,), 0 * DAY, "remove"),
        (State.DEAD, (), 15 * DAY - timedelta(seconds=1), "keep"),
        (State.DEAD, (), 15 * DAY, "remove"),
    ],
)
def test_what_is_stored_stays_while_an_attempt_may_need_it(
    state: State, owed: tuple[Owed, ...], after: timedelta, decision: str
) -> None:
    row = replace(running(), state=state, owed=owed, settled_at=NOW)
    assert decide_saved(row, NOW + after) == decision


def test_what_a_job_without_a_row_has_stored_is_removed() -> None:
    assert decide_saved(None, NOW) == "remove"


def dead(**changes: Any) -> Lease:
    values = {"state": State.DEAD, "settled_attempt": 1, "settled_at": NOW}
    values |= {"saved_ref": "record", "saved_at": NOW, "saved_bytes": 9}
    return changed(running(), **{**values, **changes})


def again(row: Lease, at: datetime = NOW + DAY, **request: Any) -> Lease:
    asked = JobRequest.model_validate({**BODY, **request})
    sent = message(message_id="m-2", sent_at=at, first_sent_at=at, received_at=at, request=asked)
    return new_run(row, sent, stage(), LeaseSettings(), at)


def test_a_redrive_goes_on_from_what_is_stored() -> None:
    row = again(dead())
    assert (row.saved_ref, row.saved_at, row.saved_bytes) == ("record", NOW, 9)
    assert (row.attempt.resumes, row.has_saved) == ("record", False)


@pytest.mark.parametrize(
    ("row", "at", "request_"),
    [
        (dead(), NOW + DAY, {"afresh": True}),
        (dead(), NOW + DAY, {"params": {"limit": 1}}),
        (dead(), NOW + KEPT_FOR_REDRIVE, {}),
        (dead(state=State.CANCELLED), NOW + DAY, {}),
        (dead(state=State.SUCCEEDED), NOW + DAY, {}),
    ],
    ids=["afresh", "other work", "too late", "after a cancel", "after a success"],
)
def test_a_run_begins_with_nothing(row: Lease, at: datetime, request_: dict[str, Any]) -> None:
    found = again(row, at, **request_)
    assert (found.saved_ref, found.saved_at, found.saved_bytes) == (None, None, 0)
    assert found.attempt.resumes is None


def test_the_last_moment_of_a_redrive_finds_what_is_stored() -> None:
    assert again(dead(), NOW + KEPT_FOR_REDRIVE - timedelta(seconds=1)).saved_ref == "record"


def test_afresh_is_about_the_way_and_not_about_the_work() -> None:
    plain, afresh = (JobRequest.model_validate({**BODY, "afresh": each}) for each in (False, True))
    assert plain.fingerprint() == afresh.fingerprint()
    # So the same message, sent with it after the end of the run, is no conflict.
    claim = decide_claim(
        dead(),
        message(message_id="m-2", sent_at=NOW + DAY, first_sent_at=NOW + DAY, request=afresh),
        stage(),
        LeaseSettings(),
        NOW + DAY,
    )
    assert isinstance(claim, Claim)
    assert claim.lease.saved_ref is None


def settled(row: Lease, kind: OutcomeClass, why: str = "why") -> Lease:
    row = replace(row, state=State.RUNNING)
    timing, rng = LeaseSettings(), random.Random(1)
    return after_verdict(row, Verdict(kind, why), stage(), timing, NOW, rng).lease


def next_of(row: Lease) -> Lease:
    return next_attempt(row, None, LeaseSettings(), NOW)


SAVED = changed(running(), saved_ref="record-2", resumes="record-1", task_arn="arn:task")
"""It has stored something new."""
STUCK = changed(running(), saved_ref="record-1", resumes="record-1", task_arn="arn:task")
"""It has not."""


def test_the_next_attempt_resumes_what_is_stored() -> None:
    row = next_of(settled(SAVED, OutcomeClass.FAILED))
    assert (row.attempt.resumes, row.saved_ref, row.has_saved) == ("record-2", "record-2", False)


def test_an_interruption_after_something_new_is_not_counted() -> None:
    row = SAVED
    for n in range(1, MAX_RESUMPTIONS + 1):
        row = settled(changed(row, resumes="record-1"), OutcomeClass.INTERRUPTED)
        assert (row.state, row.interruptions, row.resumptions) == (State.RELEASED, 0, n)
    row = settled(changed(row, resumes="record-1"), OutcomeClass.INTERRUPTED)
    assert (row.interruptions, row.resumptions) == (1, MAX_RESUMPTIONS)


def test_a_job_that_stores_something_stays_on_spot() -> None:
    row = replace(
        SAVED,
        execution_input=SAVED.input.model_copy(
            update={"capacity": "FARGATE_SPOT"}
        ).model_dump_json(),
    )
    for _ in range(20):
        row = next_of(settled(changed(row, resumes="record-1"), OutcomeClass.INTERRUPTED))
        assert row.input.capacity == "FARGATE_SPOT"


@pytest.mark.parametrize("row", [STUCK, running(task_arn="arn:task")], ids=["old", "nothing"])
def test_an_interruption_without_anything_new_counts(row: Lease) -> None:
    after = settled(row, OutcomeClass.INTERRUPTED)
    assert (after.interruptions, after.resumptions) == (1, 0)


@pytest.mark.parametrize(
    ("size", "timeout_s", "row", "failures"),
    [
        ("tiny", 840, SAVED, 0),
        ("tiny", 840, STUCK, 1),
        ("tiny", 60, SAVED, 1),
        ("small", 840, SAVED, 1),
    ],
)
def test_a_tiny_job_at_the_end_of_the_longest_invocation_goes_on(
    size: str, timeout_s: int, row: Lease, failures: int
) -> None:
    execution = row.input.model_copy(update={"size": size, "timeout_s": timeout_s})
    row = replace(row, execution_input=execution.model_dump_json())
    after = settled(row, OutcomeClass.TIMED_OUT)
    assert (after.state, after.failures) == (State.RELEASED, failures)


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
