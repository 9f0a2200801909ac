"""Running jobs: tasks of our ECS cluster, and job runs of our EMR Serverless application."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of, message_of
from longhaul.domain import job_run
from longhaul.domain.lease import AttemptId
from longhaul.domain.verdict import Evidence
from longhaul.ports import RunningTask, StoppedTask, Tasks

if TYPE_CHECKING:
    from mypy_boto3_ecs import ECSClient

_MAX_REASON = 255
# All containers have ended; at most the network interface is still there. Source:
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-lifecycle-explanation.html
_GONE = ("DEPROVISIONING", "STOPPED", "DELETED")
_TIMES = ("PullStartedAt", "StartedAt", "StoppedAt")
_NAMES = ("LONGHAUL_KEY", "LONGHAUL_RUN", "LONGHAUL_ATTEMPT")
# States of a job run that runs, or will run.
_ALIVE: Final = ("SUBMITTED", "QUEUED", "PENDING", "SCHEDULED", "RUNNING")
_ENDING: Final = "CANCELLING"
# Errors of a cancel when the job run ended after it was listed.
_ENDED: Final = {"ConflictException", "ResourceNotFoundException", "ValidationException"}


class AllTasks:
    """`ports.Tasks` of every engine that the stack has."""

    def __init__(self, *, fargate: Tasks, emr_serverless: Tasks) -> None:
        self._fargate = fargate
        self._emr_serverless = emr_serverless

    def running(self) -> Iterator[RunningTask]:
        return chain(self._fargate.running(), self._emr_serverless.running())

    def stop(self, task_arn: str, reason: str) -> StoppedTask:
        engine = self._fargate if job_run.name_in(task_arn) is None else self._emr_serverless
        return engine.stop(task_arn, reason)


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

    def stop(self, task_arn: str, reason: str) -> StoppedTask:
        """SIGTERM now, SIGKILL after the task's stop timeout."""
        try:
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


class EmrJobRuns:
    """`ports.Tasks` on EMR Serverless."""

    def __init__(self, client: Any, application_arn: str) -> None:  # noqa: ANN401 - no stubs for this client
        self._client = client
        self._application_arn = application_arn
        self._application = application_arn.rpartition("/")[2]

    def running(self) -> Iterator[RunningTask]:
        """Found by their names; fifty in one call."""
        for summary in self._listed(_ALIVE):
            attempt = job_run.attempt_of(summary.get("name", ""))
            if attempt:
                yield RunningTask(job_run.reference(self._application_arn, attempt), attempt)

    def stop(self, task_arn: str, reason: str) -> StoppedTask:  # noqa: ARG002 - EMR takes no reason
        """Cancel the job run of that name, if it runs.

        How an ended one went is not looked up: that would search all that ever ran.
        """
        name = job_run.name_in(task_arn)
        ours = [each["id"] for each in self._listed((*_ALIVE, _ENDING)) if each.get("name") == name]
        for id_ in ours:
            self._cancel(id_)
        return StoppedTask(is_gone=not ours)

    def _listed(self, states: Sequence[str]) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator("list_job_runs").paginate(
            applicationId=self._application, states=list(states)
        )
        for page in pages:
            yield from page["jobRuns"]

    def _cancel(self, id_: str) -> None:
        try:
            self._client.cancel_job_run(applicationId=self._application, jobRunId=id_)
        except ClientError as error:
            if code_of(error) not in _ENDED:
                raise


def _evidence_of(task: Mapping[str, Any]) -> Evidence:
    """How a task ended, in Step Functions' spelling."""
    containers = [
        {"ExitCode": container.get("exitCode"), "Reason": container.get("reason", "")}
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
    failed = any(container["ExitCode"] != 0 for container in containers) or not containers
    return Evidence(error="States.TaskFailed" if failed else None, task=description)


def _attempt_of(task: Mapping[str, Any]) -> AttemptId | None:
    """The attempt in the container override; None for a task that was started by hand."""
    for override in task.get("overrides", {}).get("containerOverrides", []):
        environment = {pair["name"]: pair["value"] for pair in override.get("environment", [])}
        if all(name in environment for name in _NAMES):
            key, run, attempt = (environment[name] for name in _NAMES)
            return AttemptId(key, int(run), int(attempt))
    return None
