"""An attempt as it is kept and shown."""

from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.core import history
from longhaul.core.claim import cancelled_before_claim
from longhaul.core.history import KEPT, ended, latest, remembered
from longhaul.core.lease import AttemptId, State
from longhaul.engines.aws_lambda import ends as aws_lambda
from longhaul.engines.emr_serverless.ends import (
    attempt_of,
    exit_code_in,
    name_of,
    reference,
)
from longhaul.engines.listed import ENGINES
from tests.builders import NOW, changed, record, running

SETTLED_AT = NOW + timedelta(minutes=5)
RETRY_AT = NOW + timedelta(minutes=7)
RELEASED = replace(
    running(),
    state=State.RELEASED,
    settled_attempt=1,
    settled_at=SETTLED_AT,
    retry_at=RETRY_AT,
    last_class="failed",
    last_error="exit code 1",
)
SECOND = changed(RELEASED, state=State.RUNNING, attempt=2)


def test_first_attempt_was_queued_when_its_message_was_sent() -> None:
    first = history.running(running())

    assert (first.queued_at, first.due_at) == (NOW - timedelta(minutes=1), None)
    assert (first.size, first.capacity) == ("small", "FARGATE")
    assert (first.ended_at, first.state, first.kind) == (None, State.RUNNING, None)


def test_next_attempt_was_queued_at_the_end_of_the_one_before_it() -> None:
    second = history.running(SECOND)

    assert (second.queued_at, second.due_at) == (SETTLED_AT, RETRY_AT)


def test_ended_attempt_has_its_own_wait_and_the_outcome_of_the_row_after_it() -> None:
    first = ended(running(), changed(RELEASED, beats=7))

    assert (first.queued_at, first.due_at) == (NOW - timedelta(minutes=1), None)
    assert (first.ended_at, first.state) == (SETTLED_AT, State.RELEASED)
    assert (first.kind, first.reason, first.attempt.beats) == ("failed", "exit code 1", 7)


def test_latest_attempt_of_a_released_row_does_not_take_the_next_ones_wait_for_its_own() -> None:
    last = latest(RELEASED)

    assert (last.queued_at, last.due_at) == (NOW - timedelta(minutes=1), None)
    assert last.ended_at == SETTLED_AT
    assert latest(SECOND) == history.running(SECOND)


def test_beats_are_shown_with_their_times() -> None:
    beaten = record(beat_ages_s=(15, 30))

    assert beaten.beat_times == (NOW + timedelta(seconds=15), NOW + timedelta(seconds=30))
    assert beaten.id == running().id


@pytest.mark.parametrize(("number", "first"), [(1, 1), (KEPT, 1), (KEPT + 1, 2), (KEPT + 30, 31)])
def test_the_last_fifty_attempts_are_remembered(number: int, first: int) -> None:
    assert list(remembered(changed(running(), attempt=number))) == list(range(first, number + 1))


@pytest.mark.parametrize(
    ("row", "kept", "numbers"),
    [
        (SECOND, [1], [1, 2]),
        (SECOND, [2, 1], [1, 2]),  # in their order
        (cancelled_before_claim(SECOND.key, "main", NOW), [], []),  # no attempt
    ],
)
def test_history_has_what_was_kept_and_the_attempt_of_the_row(
    row: object, kept: list[int], numbers: list[int]
) -> None:
    assert [
        each.attempt.number
        for each in history.history(row, [record(n) for n in kept])  # type: ignore[arg-type]
    ] == numbers


def test_kept_record_of_an_ended_attempt_comes_before_what_the_row_says() -> None:
    kept = record(1, reason="from its own item")

    assert history.history(RELEASED, [kept]) == [kept]
    assert history.history(SECOND, [record(2, reason="of an older run")])[0].reason is None


@pytest.mark.parametrize(
    ("task_arn", "stream"),
    [
        (None, None),
        ("arn:aws:ecs:us-east-1:1:task/Longhaul/0123", "job/job/0123"),
        ("arn:aws:emr-serverless:x/jobruns/named/main#a 5 1", None),
    ],
)
def test_log_stream_of_a_fargate_task_is_named_after_it(
    task_arn: str | None, stream: str | None
) -> None:
    assert ENGINES.log_stream(changed(running(), task_arn=task_arn).attempt) == stream


ATTEMPT = AttemptId("main#a/b", 5, 2)


def test_engine_of_a_task_is_known_from_its_reference() -> None:
    references = {
        "fargate": "arn:aws:ecs:x:1:task/Longhaul/0",
        "lambda": aws_lambda.reference("arn:function", "request", NOW),
        "emr-serverless": reference("arn:app", ATTEMPT),
    }
    assert {name: ENGINES.of(each).name for name, each in references.items()} == {
        name: name for name in references
    }
    assert {each.name for each in ENGINES.all} == set(references)
    assert ENGINES.of("of none").name == "fargate"


def test_job_run_is_found_by_the_name_that_the_state_machine_gives_it() -> None:
    assert name_of(ATTEMPT) == "main#a/b 5 2"
    assert attempt_of("main#a/b 5 2") == ATTEMPT
    assert reference("arn:app", ATTEMPT).endswith("/main#a/b 5 2")


@pytest.mark.parametrize("name", ["nightly", "main#a 5", "main#a 5 2 x", "main#a five 2", ""])
def test_job_run_that_was_started_by_hand_is_no_attempts(name: str) -> None:
    assert attempt_of(name) is None


@pytest.mark.parametrize(
    ("details", "code"),
    [("Job failed. ExitCode: 1. Last few exceptions: …", 1), ("ExitCode: x", None), ("", None)],
)
def test_exit_code_of_a_driver_is_read_from_the_details(details: str, code: int | None) -> None:
    assert exit_code_in(details) == code
