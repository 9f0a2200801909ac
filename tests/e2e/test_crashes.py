"""SIGKILL, stops, duplicates and lapses of jobs and of the functions and messages around them.

Nothing runs twice, and nothing is left. On the embedded AWS, with a runner without Spark.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.lease import Lease, State
from tests.builders import changed, there
from tests.e2e.conftest import DEADLINE_S, Stack
from tests.e2e.tripwire import Tripwire

pytestmark = pytest.mark.slow  # the simulation shows the same in seconds


@pytest.fixture
def stack(sparkless: Stack) -> Iterator[Stack]:
    yield sparkless
    sparkless.until_quiet()


@pytest.fixture
def done(tmp_path: Path) -> Path:
    """Jobs that work until there is a file here work as long as the test needs."""
    return tmp_path / "done"


def ran_once(stack: Stack, row: Lease) -> None:
    assert (row.attempt.number, row.failures, row.interruptions) == (1, 0, 0)
    assert stack.executions_of(row) == [row.id.execution_name]
    assert stack.rows(row.job_id) == [{"key": row.key, "attempt": 1}]


def test_a_job_whose_heartbeat_and_settle_are_killed_runs_once_and_is_settled(
    stack: Stack, done: Path
) -> None:
    with Tripwire(stack.aws) as wire:
        beat = wire.lay("UpdateItem", "n_beats", after=False)
        settle_before = wire.lay("TransactWriteItems", "n_settled_attempt", after=False)
        settle_after = wire.lay("TransactWriteItems", "n_settled_attempt", after=True)
        stack.send(stack.plan("killed-around", "ok", until=done))
        assert beat.sprung.wait(DEADLINE_S)
        done.touch()
        row = stack.until("killed-around", State.SUCCEEDED)
    assert all(trap.sprung.is_set() for trap in (beat, settle_before, settle_after))
    ran_once(stack, row)


@pytest.mark.parametrize("after", [False, True], ids=["before the start", "after the start"])
def test_a_job_whose_dispatcher_is_killed_around_the_start_runs_once(
    stack: Stack, done: Path, *, after: bool
) -> None:
    job_id = f"killed-dispatcher-{after}"
    with Tripwire(stack.aws) as wire:
        trap = wire.lay("StartExecution", f"main#{job_id}", after=after)
        stack.send(stack.plan(job_id, "ok", until=done))
        assert trap.sprung.wait(DEADLINE_S)
        claimed = there(stack.row(job_id))
        assert (claimed.state, claimed.attempt.number) == (State.RUNNING, 1)
        done.touch()
        row = stack.until(job_id, State.SUCCEEDED)
    # The redelivery starts what was not started. A started job has a heartbeat, which prevents the
    # redelivery.
    assert after or row.receive.receive_count > claimed.receive.receive_count
    ran_once(stack, row)


def test_a_message_that_lapses_while_its_job_runs_is_adopted_each_time(
    stack: Stack, done: Path
) -> None:
    sqs = stack.client("sqs")
    stack.send(stack.plan("lapses", "ok", until=done))
    for receives in (1, 2, 3):
        row = stack.row_when(
            "lapses",
            lambda row, n=receives: row.attempt.task_arn and row.receive.receive_count >= n,
            f"receive {receives}",
        )
        with suppress(sqs.exceptions.MessageNotInflight):  # a slow machine: lapsed by itself
            sqs.change_message_visibility(
                QueueUrl=stack.outputs["JobsQueueUrl"],
                ReceiptHandle=row.receive.receipt_handle,
                VisibilityTimeout=0,
            )
    done.touch()
    row = stack.until("lapses", State.SUCCEEDED)
    assert row.receive.receive_count >= 3
    ran_once(stack, row)


def test_a_batch_that_is_delivered_again_starts_nothing(stack: Stack, done: Path) -> None:
    body = stack.plan("handed-over-twice", "ok", until=done)
    stack.send(body)
    row = stack.until_task("handed-over-twice")
    batch = {"Records": [record(row, body)]}
    for _ in range(2):
        assert stack.invoke("dispatcher", batch) == {
            "batchItemFailures": [{"itemIdentifier": row.receive.message_id}]
        }
    done.touch()
    row = stack.until("handed-over-twice", State.SUCCEEDED)
    assert stack.invoke("dispatcher", batch) == {"batchItemFailures": []}
    ran_once(stack, row)


def test_the_same_work_sent_three_times_runs_once(stack: Stack) -> None:
    for _ in range(3):
        stack.send(stack.plan("thrice", "ok", work_s=2))
    row = stack.until("thrice", State.SUCCEEDED)
    stack.until_quiet()  # the duplicates are deleted
    ran_once(stack, row)


def test_a_killed_job_is_released_at_once_and_succeeds_at_the_second_attempt(
    stack: Stack, done: Path
) -> None:
    stack.send(stack.plan("killed", "ok", until=done))
    stack.until_task("killed")
    stack.kill("killed")
    done.touch()
    row = stack.until("killed", State.SUCCEEDED)
    assert (row.attempt.number, row.failures, row.interruptions) == (2, 1, 0)
    assert stack.rows("killed") == [{"key": row.key, "attempt": 2}]
    assert stack.ended_as(changed(row, attempt=1)) == "RELEASED"
    assert stack.ended_as(row) == "SUCCEEDED"


def test_an_execution_stopped_by_hand_ends_its_task_and_is_an_interruption(
    stack: Stack, done: Path
) -> None:
    stack.send(stack.plan("stopped", "ok", until=done))
    row = stack.until_task("stopped")
    stack.client("stepfunctions").stop_execution(executionArn=stack.execution_of(row))
    stack.wait_for(
        lambda: stack.row("stopped") != row and stack.process_group_of("stopped") is None,
        "the task to be stopped",
    )
    done.touch()
    row = stack.until("stopped", State.SUCCEEDED)
    assert (row.attempt.number, row.failures, row.interruptions) == (2, 0, 1)


def record(row: Lease, body: str) -> dict[str, Any]:
    """The record in which the mapping delivered the row's message."""
    return {
        "messageId": row.receive.message_id,
        "receiptHandle": row.receive.receipt_handle,
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": str(row.receive.receive_count),
            "SentTimestamp": str(round(there(row.receive.first_sent_at).timestamp() * 1000)),
        },
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:Longhaul-main-jobs",
    }
