"""What a row says of its job."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from longhaul.core.claim import cancelled_before_claim, next_attempt
from longhaul.core.descent import Lineage
from longhaul.core.lease import (
    AttemptId,
    CommittedOutput,
    ExecutionInput,
    Owed,
    Receive,
    RecordedResult,
    State,
    emitted_ref,
    joined_ref,
    key_hash,
    request_ref,
    with_handle,
)
from longhaul.core.settings import LeaseSettings
from longhaul.core.settlement import after_verdict, reopened
from longhaul.core.verdict import ExitCode, OutcomeClass, Verdict
from tests.builders import NOW, changed, running, stage

LATER = NOW + timedelta(hours=1)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("state", "owed", "is_finished", "open_kind"),
    [
        (State.RUNNING, (), False, "RUNNING"),
        (State.RELEASED, (), False, "RELEASED"),
        (State.SUCCEEDED, (Owed.DELETE,), False, "OWED"),
        (State.SUCCEEDED, (), True, None),
        (State.DEAD, (Owed.DEAD_LETTER,), False, "OWED"),
        (State.CANCELLED, (), True, None),
    ],
)
def test_row_is_open_until_its_job_has_ended_and_nothing_is_owed(
    state: State, owed: tuple[Owed, ...], open_kind: str | None, *, is_finished: bool
) -> None:
    row = replace(running(), state=state, owed=owed)

    assert (row.is_finished, row.open_kind) == (is_finished, open_kind)


def test_a_mark_whose_message_has_come_may_owe_its_deletion() -> None:
    """Otherwise nothing would say that the message is still there."""
    marked = cancelled_before_claim("main#january", "main", NOW)
    mark = replace(marked, state=State.CANCELLED, owed=(Owed.DELETE,))
    assert (mark.is_mark, mark.open_kind) == (True, "OWED")


@pytest.mark.parametrize(
    ("message_id", "receive_count", "seen"),
    [("m-1", 3, True), ("m-1", 2, True), ("m-1", 4, False), ("m-2", 3, False)],
)
def test_row_has_seen_its_messages_receives_up_to_its_own(
    message_id: str, receive_count: int, *, seen: bool
) -> None:
    assert changed(running(), receive_count=3).has_seen(message_id, receive_count) is seen


@pytest.mark.parametrize(
    ("retry_at", "seen_at", "since"),
    [
        (None, None, NOW),  # of its claim
        (NOW + MINUTE, None, NOW + MINUTE),
        (NOW + MINUTE, NOW + 2 * MINUTE, NOW + 2 * MINUTE),
        (NOW + 2 * MINUTE, NOW + MINUTE, NOW + 2 * MINUTE),
    ],
)
def test_message_is_unseen_since_its_back_off_or_its_last_receive(
    retry_at: datetime | None, seen_at: datetime | None, since: datetime
) -> None:
    row = changed(running(), state=State.RELEASED, retry_at=retry_at, seen_at=seen_at)

    assert row.unseen_for(LATER) == LATER - since


@pytest.mark.parametrize(
    ("changes", "waited"),
    [
        ({"unplaced_since": NOW, "state": State.RELEASED}, timedelta(hours=1)),
        ({"unplaced_since": NOW}, timedelta(hours=1)),  # claimed, and no task yet
        ({"unplaced_since": NOW, "task_arn": "arn:task"}, timedelta(0)),
        (
            {"unplaced_since": NOW, "task_arn": "arn:task", "state": State.RELEASED},
            timedelta(hours=1),
        ),
        ({"unplaced_since": NOW, "state": State.DEAD}, timedelta(0)),
        ({"unplaced_since": None}, timedelta(0)),
    ],
    ids=str,
)
def test_job_is_unplaced_while_it_is_open_and_no_task_of_it_runs(
    changes: dict[str, Any], waited: timedelta
) -> None:
    assert changed(running(), **changes).unplaced_for(LATER) == waited


@pytest.mark.parametrize(
    ("cancelled_at", "marked_at", "covered"),
    [
        (NOW, None, True),
        (NOW - MINUTE, None, False),  # of the very millisecond
        (NOW - MINUTE, NOW, False),  # the time of the cancel counts, not the mark's
        (None, None, False),
    ],
)
def test_cancel_covers_what_was_sent_before_it(
    cancelled_at: datetime | None, marked_at: datetime | None, *, covered: bool
) -> None:
    row = replace(running(), cancelled_at=cancelled_at, cancel_requested_at=marked_at)

    assert row.cancels(NOW - MINUTE) is covered


@pytest.mark.parametrize(
    ("changes", "cancelled"),
    [
        ({"cancel_requested_at": NOW}, True),
        ({"cancelled_at": NOW}, True),  # the work was sent a minute before
        ({"cancelled_at": NOW - 2 * MINUTE}, False),
        ({"cancelled_at": NOW, "first_sent_at": None}, False),
        ({}, False),
    ],
    ids=str,
)
def test_run_is_cancelled_by_its_mark_or_by_a_cancel_after_its_work_was_sent(
    changes: dict[str, Any], *, cancelled: bool
) -> None:
    assert changed(running(), **changes).is_cancelled is cancelled


@pytest.mark.parametrize(
    ("changes", "open_"),
    [
        ({"cancel_requested_at": NOW}, True),
        ({}, False),
        ({"state": State.SUCCEEDED, "owed": (Owed.PUBLISH,), "cancelled_at": NOW}, True),
        # It has succeeded, and nobody cancelled it.
        ({"state": State.SUCCEEDED, "owed": (Owed.PUBLISH,)}, False),
        # Its commit is published: too late.
        ({"state": State.SUCCEEDED, "owed": (Owed.DELETE,), "cancelled_at": NOW}, False),
    ],
    ids=str,
)
def test_cancel_is_open_until_the_run_has_ended_for_good(
    changes: dict[str, Any], *, open_: bool
) -> None:
    assert changed(running(), **changes).is_cancel_open is open_


@pytest.mark.parametrize(
    ("state", "settled_at", "over"),
    [
        (State.DEAD, NOW, True),  # of the very millisecond
        (State.DEAD, NOW + MINUTE, False),
        (State.DEAD, None, True),
        (State.CANCELLED, NOW + MINUTE, True),
        (State.RUNNING, None, False),
        (State.SUCCEEDED, NOW - MINUTE, False),
    ],
)
def test_job_was_over_for_what_was_sent_after_its_death_or_its_cancel(
    state: State, settled_at: datetime | None, *, over: bool
) -> None:
    assert replace(running(), state=state, settled_at=settled_at).was_over(NOW) is over


def test_row_belongs_to_the_attempt_that_runs_and_to_no_other() -> None:
    row = running()

    assert row.owns(row.id)
    assert not row.owns(replace(row.id, run=row.run + 1))
    assert not replace(row, state=State.RELEASED).owns(row.id)
    assert not row.has_settled(row.id)
    assert replace(row, settled_attempt=1).has_settled(row.id)
    assert replace(row, settled_attempt=2).has_settled(row.id)


@pytest.mark.parametrize(
    ("chain", "is_of"),
    [("m-0", True), ("m-9", False)],
)
def test_row_names_its_message_and_those_of_its_chain(chain: str, *, is_of: bool) -> None:
    assert Receive("m-2", renews="m-0").is_of(chain) is is_of
    assert Receive("m-2").chain == "m-2"


def test_newer_handle_replaces_only_the_handle() -> None:
    row = running()
    newer = with_handle(row, "newer")

    assert newer == changed(row, receipt_handle="newer")
    assert newer.receive.receipt_handle == "newer"


def test_numbers_of_an_execution_are_texts_and_are_read_back() -> None:
    row = running()
    stored = json.loads(row.execution_input)

    assert (stored["run"], stored["attempt"]) == (str(row.run), "1")
    assert row.input.id == row.id
    assert row.job_id == "january"


def test_texts_and_numbers_that_other_versions_and_the_state_machine_read_stay() -> None:
    assert list(State) == ["RUNNING", "RELEASED", "SUCCEEDED", "DEAD", "CANCELLED"]
    assert list(Owed) == ["publish", "follow_ons", "dead_letter", "delete"]
    assert " ".join(OutcomeClass) == (
        "succeeded no_output permanent out_of_memory out_of_disk failed timed_out stalled"
        " interrupted not_placed refused cancelled superseded"
    )
    assert list(ExitCode) == [0, 1, 65, 73, 74, 75, 77, 137]


def test_input_of_an_execution_is_a_value_and_may_have_fields_of_another_version() -> None:
    stored = {**json.loads(running().execution_input), "of_the_next_version": 1}
    assert {ExecutionInput.model_validate(stored), running().input} == {running().input}


def test_root_of_a_job_is_its_own_key_unless_another_made_it() -> None:
    made = replace(running(), lineage=Lineage(root="main#root", parent="main#parent"))

    assert (running().root, made.root) == ("main#january", "main#root")


def test_objects_and_executions_of_a_job_are_named_after_its_key() -> None:
    attempt = AttemptId("main#january", 5, 2)
    digest = key_hash("main#january")

    assert len(digest) == 20
    assert attempt.token == attempt.execution_name == f"{digest}-5-2"
    assert emitted_ref(attempt) == "longhaul/emitted/main!january/5-2.json"
    assert joined_ref("main#january", 2) == f"longhaul/joined/{digest}-2.json"
    assert request_ref("main#january", "m-1") == "longhaul/requests/main!january/m-1.json"


COMMITTED = changed(
    replace(running(), state=State.SUCCEEDED, owed=(Owed.PUBLISH, Owed.DELETE)),
    output=CommittedOutput(1, 1, 1, prefix="s3://b/o/"),
    result=RecordedResult(1, "succeeded", ""),
    gone_at=NOW,
)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        pytest.param(
            {},
            {"state": State.RELEASED, "owed": (), "retry_at": LATER, "cancel_requested_at": None},
            id="released at once",
        ),
        pytest.param(
            {"cancelled_at": LATER},
            {"state": State.RELEASED, "cancel_requested_at": LATER},
            id="cancelled before",
        ),
        pytest.param(
            {"interruptions": LeaseSettings().max_interruptions - 1},
            # What was sent while it seemed to have succeeded is older than its death.
            {
                "state": State.DEAD,
                "owed": (Owed.DEAD_LETTER, Owed.DELETE),
                "settled_at": LATER,
            },
            id="void too often",
        ),
    ],
)
def test_job_of_a_void_commit_was_interrupted(
    changes: dict[str, Any], found: dict[str, Any]
) -> None:
    before = replace(COMMITTED, **changes)
    row = reopened(before, LeaseSettings(), LATER, Random(1))

    assert {name: getattr(row, name) for name in found} == found
    assert (row.last_class, row.last_error) == ("interrupted", "the committed output was void")
    assert row.interruptions == before.interruptions + 1
    assert (row.attempt.output, row.attempt.result, row.attempt.gone_at) == (None, None, None)


def test_job_whose_commit_was_void_before_backs_off() -> None:
    before = replace(COMMITTED, interruptions=5)

    row = reopened(before, LeaseSettings(), LATER, Random(1))

    assert row.retry_at is not None
    assert row.retry_at > LATER


def test_a_wait_for_a_place_is_over_with_an_attempt_that_committed() -> None:
    """One refusal after its void commit must not count the days for which the attempt ran."""
    long_ago = NOW - timedelta(days=8)
    before = replace(COMMITTED, unplaced_since=long_ago)

    row = reopened(before, LeaseSettings(), LATER, Random(1))
    again = next_attempt(row, None, LeaseSettings(), LATER)
    refused = Verdict(OutcomeClass.REFUSED, "no right")
    after = after_verdict(again, refused, stage(), LeaseSettings(), LATER, Random(1)).lease

    assert after.state is State.RELEASED
    assert after.unplaced_since == LATER
