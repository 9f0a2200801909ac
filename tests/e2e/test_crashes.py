"""What SIGKILL, duplicates and lapses do to the functions and messages around a job: it runs once, and nothing is left. On the embedded AWS, without Spark."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from longhaul.domain.lease import Lease, State
from tests.e2e.conftest import DEADLINE_S, Stack
from tests.e2e.tripwire import Tripwire


@pytest.fixture
def stack(sparkless: Stack) -> Iterator[Stack]:
    yield sparkless
    sparkless.wait_for(sparkless.is_quiet, "no message, no execution and no slot left")


def ran_once(stack: Stack, row: Lease) -> None:
    assert (row.attempt, row.failures, row.interruptions) == (1, 0, 0)
    assert stack.executions_of(row) == [row.id.execution_name]
    assert stack.rows(row.job_id) == [{"key": row.key, "attempt": 1}]


def test_a_job_whose_heartbeat_and_settle_are_killed_in_mid_invocation_runs_once_and_is_settled(stack: Stack) -> None:
    with Tripwire(stack.aws) as wire:
        beat = wire.lay("UpdateItem", "n_beats", after=False)
        settle_before = wire.lay("TransactWriteItems", "n_settled_attempt", after=False)
        settle_after = wire.lay("TransactWriteItems", "n_settled_attempt", after=True)
        stack.send(stack.plan("killed-around", "ok", work_s=5))
        row = stack.until("killed-around", State.SUCCEEDED)
    assert all(trap.sprung.is_set() for trap in (beat, settle_before, settle_after))
    ran_once(stack, row)


@pytest.mark.parametrize("after", [False, True], ids=["before the start", "after the start"])
def test_a_job_whose_dispatcher_is_killed_between_claim_and_start_or_before_the_answer_runs_once(
    stack: Stack, *, after: bool
) -> None:
    job_id = f"killed-dispatcher-{after}"
    with Tripwire(stack.aws) as wire:
        trap = wire.lay("StartExecution", f"main#{job_id}", after=after)
        stack.send(stack.plan(job_id, "ok", work_s=2))
        assert trap.sprung.wait(DEADLINE_S)
        claimed = stack.row(job_id)
        assert claimed is not None
        assert (claimed.state, claimed.attempt) == (State.RUNNING, 1)
        row = stack.until(job_id, State.SUCCEEDED)
    # What was not started the redelivery starts. What was started has a heartbeat, which keeps the message from being redelivered at all.
    assert after or row.receive_count > claimed.receive_count
    ran_once(stack, row)


def test_a_message_that_lapses_while_its_job_runs_is_adopted_each_time(stack: Stack) -> None:
    stack.send(stack.plan("lapses", "ok", work_s=8))
    for receives in (1, 2, 3):
        row = stack.wait_for(lambda n=receives: received(stack, "lapses", n), f"receive {receives}")
        stack.client("sqs").change_message_visibility(
            QueueUrl=stack.outputs["JobsQueueUrl"], ReceiptHandle=row.receipt_handle, VisibilityTimeout=0
        )
    row = stack.until("lapses", State.SUCCEEDED)
    assert row.receive_count >= 3
    ran_once(stack, row)


def received(stack: Stack, job_id: str, times: int) -> Lease | None:
    row = stack.row(job_id)
    return row if row and row.task_arn and row.receive_count >= times else None


def test_a_batch_that_is_handed_over_again_while_its_job_runs_and_afterwards_starts_nothing(stack: Stack) -> None:
    body = stack.plan("handed-over-twice", "ok", work_s=5)
    stack.send(body)
    row = stack.until_task("handed-over-twice")
    batch = {"Records": [record(row, body)]}
    for _ in range(2):
        assert dispatch(stack, batch) == {"batchItemFailures": [{"itemIdentifier": row.message_id}]}
    row = stack.until("handed-over-twice", State.SUCCEEDED)
    assert dispatch(stack, batch) == {"batchItemFailures": []}
    ran_once(stack, row)


def record(row: Lease, body: str) -> dict[str, Any]:
    """The record with which the mapping handed the row's message over."""
    assert row.first_sent_at is not None
    return {
        "messageId": row.message_id,
        "receiptHandle": row.receipt_handle,
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": str(row.receive_count),
            "SentTimestamp": str(round(row.first_sent_at.timestamp() * 1000)),
        },
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:Longhaul-main-jobs",
    }


def dispatch(stack: Stack, batch: dict[str, Any]) -> dict[str, Any]:
    functions = stack.client("lambda").list_functions()["Functions"]
    (dispatcher,) = (each for each in functions if each["Handler"] == "functions.dispatcher.lambda_handler")
    answer = stack.client("lambda").invoke(FunctionName=dispatcher["FunctionName"], Payload=json.dumps(batch))
    kept: dict[str, Any] = json.loads(answer["Payload"].read())
    return kept
