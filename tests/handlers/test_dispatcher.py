import json
from pathlib import Path
from typing import Any

import pytest

from functions.dispatcher import lambda_handler
from longhaul.config.starts import SCHEDULED_TIME, Schedule
from longhaul.core.lease import State
from tests.builders import BODY, BUCKET, body
from tests.events import cases, event
from tests.handlers.life import Life
from tests.handlers.stack import Context, Stack

REASONS = {
    "invalid-not-json": "the body is not valid JSON at line 1, column 2",
    "invalid-not-an-object": "the body must be a JSON object, not an array",
    "invalid-unknown-job": "job: unknown job; known: daily_delays, flights_clean, sql",
    "invalid-no-such-engine": "engine: this stack has no emr-serverless; it has: fargate",
    "invalid-unknown-field": "priority: unknown field; known: version, job, job_id, inputs, "
    "output, outputs, mode, params, engine, size, timeout, stall_timeout, max_attempts, "
    "afresh, label, tags",
    "invalid-wrong-type": "max_attempts: Input should be a valid integer",
    "invalid-path-escapes": "inputs.flights: must not contain '.' or '..' segments",
    "invalid-other-scheme": "inputs.flights: must be s3://bucket/… or data:…",
    "invalid-other-bucket": "output: this bucket is not allowed; allowed: longhaul-data",
    "invalid-overlong-job-id": "job_id: a job_id has 1 to 128 of A-Z a-z 0-9 . _ / : -, "
    "no leading '/' or '-', no '..'",
}


def dispatch(case: str | dict[str, Any], context: Context) -> list[str]:
    """Pass a batch, or that of an event file, to the dispatcher; return the ids that it keeps."""
    batch = event("dispatcher", case) if isinstance(case, str) else case
    return [each["itemIdentifier"] for each in lambda_handler(batch, context)["batchItemFailures"]]


def test_new_job_is_claimed_and_started_and_its_message_kept(
    stack: Stack, context: Context
) -> None:
    assert dispatch("new-job", context) == ["00000001-0000-4000-8000-000000000000"]
    row = stack.row()
    assert (row.state, row.attempt.number) == (State.RUNNING, 1)
    assert stack.executions() == [row.execution_input]
    assert (
        stack.parts.requests.get(row.request_ref).body
        == event("dispatcher", "new-job")["Records"][0]["body"]
    )
    assert len(row.execution_input) < 1024


def test_row_has_the_label_and_tags_of_its_request_and_who_sent_it(
    stack: Stack, context: Context
) -> None:
    dispatch("new-job-with-a-label", context)
    row = stack.row("flights-2013-01-labelled")
    assert (row.label, row.tags) == ("January 2013", {"month": "2013-01"})
    assert row.receive.sender == "AIDAEXAMPLE"


@pytest.mark.parametrize(
    "case", [case for case in cases("dispatcher") if case.startswith("invalid-")]
)
def test_invalid_message_is_dead_lettered_at_once_with_the_reason(
    stack: Stack, context: Context, case: str
) -> None:
    assert dispatch(case, context) == []
    ((letter, why),) = stack.dead_letters()
    assert letter == event("dispatcher", case)["Records"][0]["body"]
    assert (why["class"], why["reason"]) == ("invalid_request", REASONS[case])
    assert stack.executions() == []


def test_body_at_the_size_limit_runs_if_valid_and_is_dead_lettered_whole_if_not(
    stack: Stack, context: Context
) -> None:
    batch = event("dispatcher", "mixed-batch")
    limit = 1_032_192
    batch["Records"][0]["body"] = "x" * limit
    limit -= 360  # a copy has our attributes beside the body
    batch["Records"][1]["body"] = body(
        job_id="large",
        params={"text": "x" * (limit - len(body(job_id="large", params={"text": ""})))},
    )
    batch["Records"] = batch["Records"][:2]
    assert dispatch(batch, context) == ["00000041-0000-4000-8000-000000000000"]
    assert stack.row("large").state is State.RUNNING


def test_invalid_message_that_cannot_be_dead_lettered_stays_in_the_queue(
    stack: Stack, context: Context
) -> None:
    del stack.sqs.queues[stack.dead_letters_url]
    assert dispatch("mixed-batch", context) == [
        record["messageId"] for record in event("dispatcher", "mixed-batch")["Records"]
    ]
    assert len(stack.executions()) == 2


@pytest.mark.usefixtures("stack")
def test_batch_of_an_unknown_queue_raises_and_deletes_nothing(context: Context) -> None:
    batch = event("dispatcher", "new-job")
    batch["Records"][0]["eventSourceARN"] = "arn:aws:sqs:us-east-1:123456789012:other"
    with pytest.raises(LookupError, match="no stage reads from the queue 'other'"):
        dispatch(batch, context)


def test_firing_of_a_schedule_is_one_job_however_often_it_is_delivered(
    stack: Stack, output: Path
) -> None:
    request: dict[str, Any] = {
        **BODY,
        "output": "data:nightly/<aws.scheduler.scheduled-time>/",
    }
    schedule = Schedule(expression="rate(1 day)", request=request)
    call = schedule.call(stack.jobs_url, BUCKET)

    def fire(day: int) -> None:
        at = f"2025-12-{day}T02:30:00Z"
        stack.sqs.send_message(**json.loads(json.dumps(call).replace(SCHEDULED_TIME, at)))

    life = Life(stack, output)
    for day in (21, 21, 22):
        fire(day)
    life.deliver()
    first, second = (f"scheduled/2025-12-{day}T02:30:00Z" for day in (21, 22))
    assert sorted(json.loads(each)["job_id"] for each in stack.executions()) == [first, second]

    # "At least once": the second delivery may come when the job has ended.
    life.settle(life.row(first), "exit-65-permanent")
    life.cancel(second)
    life.settle(life.row(second), "cancelled")
    for day in (21, 22):
        stack.aws.clock.advance(120)
        fire(day)
        life.deliver()
    assert [life.row(each).state for each in (first, second)] == [State.DEAD, State.CANCELLED]
    assert len(stack.dead_letters()) == 1
