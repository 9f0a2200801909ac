"""What settle goes by, where several things are known of one attempt."""

import json

from longhaul.domain.classify import classify
from longhaul.domain.lease import CommittedOutput, RecordedResult, State
from longhaul.domain.outcome import reopened
from longhaul.domain.verdict import Evidence, OutcomeClass
from tests.builders import NOW, changed, running

STARTED = changed(running(), progress_at=NOW, task_arn="arn:task")


def ended(exit_code: int, stopped_reason: str = "") -> Evidence:
    task = {
        "TaskArn": "arn:task",
        "Containers": [{"Name": "job", "ExitCode": exit_code}],
        "StopCode": "EssentialContainerExited",
        "StoppedReason": stopped_reason,
    }
    return Evidence("States.TaskFailed", json.dumps(task))


def test_interruption_that_the_runner_recorded_counts_whatever_its_exit_code() -> None:
    recorded = RecordedResult(1, "interrupted", "S3 was out")

    assert classify(changed(STARTED, result=recorded), ended(1)).kind is OutcomeClass.INTERRUPTED


def test_out_of_memory_is_seen_in_the_reason_of_the_stop_too() -> None:
    evidence = ended(137, "OutOfMemoryError: the task was killed")

    assert classify(STARTED, evidence).kind is OutcomeClass.OUT_OF_MEMORY


def test_job_that_runs_again_after_a_void_commit_has_neither_its_output_nor_its_result() -> None:
    row = changed(
        running(),
        output=CommittedOutput(1, "longhaul/pending/x", "s3://longhaul-data/out/", 2, 10),
        result=RecordedResult(1, "succeeded", ""),
        gone_at=NOW,
    )
    after = reopened(row, NOW)

    assert (after.state, after.owed, after.retry_at) == (State.RELEASED, (), NOW)
    assert (after.attempt.output, after.attempt.result) == (None, None)
    assert (after.attempt.gone_at, after.last_error) == (None, "the committed output was void")
