"""Running jobs: tasks of our ECS cluster."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of, message_of
from longhaul.core.lease import AttemptId
from longhaul.core.ports import RunningTask
from longhaul.core.verdict import Evidence, StoppedTask
from longhaul.engines.fargate.ends import job_container

if TYPE_CHECKING:
    from mypy_boto3_ecs import ECSClient

_MAX_REASON = 255
# All containers have ended; at most the network interface is still there. Source:
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-lifecycle-explanation.html
_GONE = ("DEPROVISIONING", "STOPPED", "DELETED")
_TIMES = ("PullStartedAt", "StartedAt", "StoppedAt")
_NAMES = ("LONGHAUL_KEY", "LONGHAUL_RUN", "LONGHAUL_ATTEMPT")


class EcsTasks:
    """`ports.Tasks` on Fargate."""

    def __init__(self, client: "ECSClient", cluster_arn: str) -> None:
        self._client = client
        self._cluster = cluster_arn

    def running(self) -> Iterator[RunningTask]:
        """Found by their environment: under `.sync`, `startedBy` is the same for all executions."""
        for page in self._client.get_paginator("list_tasks").paginate(
            cluster=self._cluster, desiredStatus="RUNNING"
        ):
            if page["taskArns"]:  # at most 100, which is what one description takes
                for task in self._client.describe_tasks(
                    cluster=self._cluster, tasks=page["taskArns"]
                )["tasks"]:
                    attempt = _attempt_of(task)
                    if attempt:
                        yield RunningTask(task["taskArn"], attempt)

    def stop(self, task_arn: str, attempt: AttemptId, reason: str) -> StoppedTask:
        """SIGTERM now, SIGKILL after the task's stop timeout."""
        try:
            if self._is_of_another(attempt, task_arn):
                return StoppedTask(is_gone=True)
            task = self._client.stop_task(
                cluster=self._cluster, task=task_arn, reason=reason[:_MAX_REASON]
            )["task"]
        except ClientError as error:
            # ECS forgets a stopped task after about an hour, and then says that it cannot find it.
            if code_of(error) != "InvalidParameterException" or "not found" not in message_of(
                error
            ):
                raise
            return StoppedTask(is_gone=True)
        # "UserInitiated": stopped by us, now or a moment ago.
        by_itself = task.get("lastStatus") == "STOPPED" and task.get("stopCode") != "UserInitiated"
        return StoppedTask(
            task.get("lastStatus") in _GONE, _evidence_of(task) if by_itself else None
        )

    def _is_of_another(self, attempt: AttemptId, task_arn: str) -> bool:
        """Whether ECS knows the task, and started it for something else."""
        found = self._client.describe_tasks(cluster=self._cluster, tasks=[task_arn])["tasks"]
        return any(_attempt_of(task) != attempt for task in found)


def _evidence_of(task: Mapping[str, Any]) -> Evidence:
    """How a task ended, in Step Functions' spelling."""
    containers = [
        {
            "Name": container.get("name"),
            "ExitCode": container.get("exitCode"),
            "Reason": container.get("reason", ""),
        }
        for container in task.get("containers", [])
    ]
    description: dict[str, Any] = {
        "StopCode": task.get("stopCode", ""),
        "StoppedReason": task.get("stoppedReason", ""),
        "Containers": containers,
    }
    times = {name: task.get(f"{name[0].lower()}{name[1:]}") for name in _TIMES}
    description |= {
        name: round(at.timestamp() * 1000) for name, at in times.items() if at is not None
    }
    failed = job_container(description).get("ExitCode") != 0
    return Evidence(error="States.TaskFailed" if failed else None, task=description)


def _attempt_of(task: Mapping[str, Any]) -> AttemptId | None:
    """The attempt in the container override; None for a task that was started by hand."""
    for override in task.get("overrides", {}).get("containerOverrides", []):
        environment = {pair["name"]: pair["value"] for pair in override.get("environment", [])}
        if all(name in environment for name in _NAMES):
            key, run, attempt = (environment[name] for name in _NAMES)
            return AttemptId(key, int(run), int(attempt))
    return None
