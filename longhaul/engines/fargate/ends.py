"""A task on Fargate: what its end says. Pure."""

from typing import Any, Final

from longhaul.core.engine import Engine
from longhaul.core.lease import Lease
from longhaul.core.verdict import (
    OutcomeClass,
    Verdict,
    by_exit_code,
    says_no_room,
    says_out_of_memory,
    searchable,
)

CONTAINER: Final = "job"
"""The container of the task definitions that runs the job.

A task may have others, in any order: GuardDuty's runtime monitoring adds one to each task.
"""

_KILLED = 137
_FAILED_TO_START = "TaskFailedToStart"
_STOPPED_BY_PLATFORM = {
    "SpotInterruption",
    "TerminationNotice",
    "InfrastructureHealth",
    _FAILED_TO_START,
    "UserInitiated",
    "ServiceSchedulerInitiated",
}


def classify(_: Lease, task: dict[str, Any]) -> Verdict:
    """How a Fargate task ended: its stop code, then its exit code."""
    stop_code = str(task.get("StopCode", ""))
    stopped_reason = searchable(str(task.get("StoppedReason", "")))
    container = job_container(task)
    code, reason = container.get("ExitCode"), searchable(str(container.get("Reason", "")))
    said = "; ".join(
        part
        for part in (
            f"exit code {code}" if code is not None else "",
            reason,
            stop_code,
            stopped_reason,
        )
        if part
    )
    if code == _KILLED and says_out_of_memory(reason + stopped_reason):
        return Verdict(OutcomeClass.OUT_OF_MEMORY, said)
    kind = by_exit_code(code)
    if stop_code in _STOPPED_BY_PLATFORM and kind is OutcomeClass.FAILED:
        kind = OutcomeClass.INTERRUPTED
    if stop_code == _FAILED_TO_START and code is None:
        # No container ran: its image, or the service of its logs, is out of reach or denied.
        kind = OutcomeClass.NOT_PLACED if says_no_room(stopped_reason) else OutcomeClass.REFUSED
    return Verdict(kind, said or "the task ended without an exit code")


def job_container(task: dict[str, Any]) -> dict[str, Any]:
    """The container of a task's description that ran the job; empty where there is none."""
    containers: list[dict[str, Any]] = task.get("Containers") or []
    return next((each for each in containers if each.get("Name") == CONTAINER), {})


FARGATE = Engine(
    name="fargate",
    task_mark=":task/",
    described_by="TaskArn",
    errors=("ECS.", "AmazonECS."),
    queues=False,
    log_prefix="job/job/",  # ECS names a stream `<prefix>/<container>/<task id>`
    classify=classify,
)
