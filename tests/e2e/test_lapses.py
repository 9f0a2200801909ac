"""A message that lapses while its job runs, again and again. On the embedded AWS, without Spark.

`test_many_jobs.py` has SIGKILLs, stops and duplicates.
"""

from contextlib import suppress
from pathlib import Path

import pytest

from longhaul.core.lease import State
from tests.e2e.conftest import Stack

pytestmark = pytest.mark.slow  # the simulation shows the same in seconds


def test_a_message_that_lapses_while_its_job_runs_is_adopted_each_time(
    sparkless: Stack, tmp_path: Path
) -> None:
    stack, done = sparkless, tmp_path / "done"
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
    assert (row.attempt.number, row.failures, row.interruptions) == (1, 0, 0)
    assert stack.executions_of(row) == [row.id.execution_name]
    assert stack.rows(row.job_id) == [{"key": row.key, "attempt": 1}]
    stack.until_quiet()
