"""What settle goes by, where several things are known of one attempt."""

import json
from itertools import permutations
from typing import Any

import pytest

from longhaul.core.lease import RecordedResult
from longhaul.core.settlement import classify
from longhaul.core.verdict import Evidence, OutcomeClass
from longhaul.engines.fargate.tasks import _evidence_of
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


CONTAINERS = (
    {"name": "job", "exitCode": 0},
    {"name": "aws-guardduty-agent-1a2b3c4", "exitCode": 137},
)


@pytest.mark.parametrize("containers", [*permutations(CONTAINERS)])
def test_a_sidecar_that_is_killed_makes_no_failure_of_a_task(
    containers: tuple[dict[str, Any], ...],
) -> None:
    assert _evidence_of({"containers": list(containers)}).error is None
