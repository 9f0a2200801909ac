"""ECS in memory: tasks of Fargate.

Nothing runs in a task. `containers`, when set, starts and ends each with `run` and `end`.

Tasks of the ECS fake, and how DescribeTasks shows them.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol

from simulation.aws.service import (
    ACCOUNT,
    REGION,
    Answer,
    Gate,
    Pages,
    RefusedError,
    Service,
    known,
    operation,
    page_of,
)

_NO_ARGUMENTS: Mapping[str, Any] = {}


def environment_of(request: Mapping[str, Any]) -> dict[str, str]:
    """The container's environment from RunTask's overrides."""
    overrides = request.get("overrides", _NO_ARGUMENTS).get("containerOverrides", [])
    return {
        each["name"]: each["value"]
        for override in overrides
        for each in override.get("environment", [])
    }


@dataclass(frozen=True)
class Definition:
    arn: str
    family: str
    container: str
    stop_timeout_s: int
    cpu: str
    memory: str
    environment: tuple[Mapping[str, str], ...] = ()


@dataclass(eq=False)
class Task:
    arn: str
    cluster_arn: str
    definition: Definition
    request: Mapping[str, Any]  # RunTask's arguments
    created_at: datetime
    status: str = "PROVISIONING"
    desired: str = "RUNNING"
    started_at: datetime | None = None
    stopping_at: datetime | None = None
    stopped_at: datetime | None = None
    stop_code: str | None = None
    stopped_reason: str | None = None
    exit_code: int | None = None
    container_reason: str | None = None

    @property
    def killed_at(self) -> datetime | None:
        """The time of SIGKILL, after the SIGTERM of a stop."""
        return self.stopping_at and self.stopping_at + timedelta(
            seconds=self.definition.stop_timeout_s
        )

    @property
    def is_over(self) -> bool:
        return self.status == "STOPPED"

    @property
    def environment(self) -> dict[str, str]:
        return environment_of(self.request)

    def described(self) -> Answer:
        container = {
            "name": self.definition.container,
            "taskArn": self.arn,
            "lastStatus": self.status,
            "exitCode": self.exit_code,
            "reason": self.container_reason,
        }
        shown: dict[str, Any] = {
            "taskArn": self.arn,
            "clusterArn": self.cluster_arn,
            "taskDefinitionArn": self.definition.arn,
            "group": f"family:{self.definition.family}",
            "startedBy": self.request.get("startedBy"),
            "launchType": self.request.get("launchType", "FARGATE"),
            "cpu": self.definition.cpu,
            "memory": self.definition.memory,
            "overrides": self.request.get("overrides", {}),
            "lastStatus": self.status,
            "desiredStatus": self.desired,
            "createdAt": self.created_at,
            "startedAt": self.started_at,
            "stoppingAt": self.stopping_at,
            "stoppedAt": self.stopped_at,
            "stopCode": self.stop_code,
            "stoppedReason": self.stopped_reason,
            "containers": [{name: value for name, value in container.items() if value is not None}],
        }
        return {name: value for name, value in shown.items() if value is not None}


DESCRIBABLE = timedelta(hours=1)
"""How long DescribeTasks returns a stopped task."""

DEFAULT_STOP_TIMEOUT_S = 30
_MAX_OVERRIDES = 8192
_MAX_STARTED_BY = 128


class Containers(Protocol):
    """What runs in the tasks."""

    def launched(self, task: Task) -> None:
        """RunTask accepted the task; `FakeEcs.run` starts it, `FakeEcs.end` ends it."""

    def terminated(self, task: Task) -> None:
        """SIGTERM; at `task.killed_at` the task ends by SIGKILL."""


class Failure(Exception):  # noqa: N818 - ECS's word for it, and not an error of the call
    """RunTask returns 200 and starts nothing.

    `reason` is that of a member of `failures`, such as `RESOURCE:ENI`.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


@dataclass
class Launches:
    """The bucket of RunTask, which refills all the time. By default that of an account."""

    per_s: float = 20.0
    at_once: int = 100
    throttled: int = 0
    _back_at: deque[datetime] = field(default_factory=deque)  # each token that was taken

    def take(self, now: datetime) -> None:
        while self._back_at and self._back_at[0] <= now:
            self._back_at.popleft()
        if len(self._back_at) >= self.at_once:
            self.throttled += 1
            raise RefusedError("ThrottlingException", "Rate exceeded")
        last = self._back_at[-1] if self._back_at else now
        self._back_at.append(last + timedelta(seconds=1 / self.per_s))


@dataclass
class Cluster:
    arn: str
    tasks: dict[str, Task] = field(default_factory=dict)


class FakeEcs(Service):
    service = "ecs"
    paginators: ClassVar[Pages] = {"list_tasks": (("nextToken", "nextToken"),)}

    def __init__(self, gate: Gate, now: Callable[[], datetime]) -> None:
        super().__init__(gate, now)
        self.clusters: dict[str, Cluster] = {}  # by ARN
        self.definitions: dict[str, Definition] = {}  # by ARN; the newest of a family is its last
        self.containers: Containers | None = None
        # Gets RunTask's request, and may raise Failure.
        self.before_launch: Callable[[Mapping[str, Any]], None] = lambda _request: None
        self.task_ended: list[Callable[[Task], None]] = []
        self.launches = Launches()

    def run(self, task: Task) -> None:
        """The task's container starts."""
        task.status, task.started_at = "RUNNING", self._now()

    def end(
        self,
        task: Task,
        stop_code: str,
        reason: str,
        exit_code: int | None = None,
        container_reason: str | None = None,
        *,
        at: datetime | None = None,
    ) -> None:
        """The task has stopped; a second end changes nothing.

        `at`: when it stopped, if that is noticed late.
        """
        if task.is_over:
            return
        task.status = task.desired = "STOPPED"
        task.stopped_at = at or self._now()
        task.stopping_at = task.stopping_at or task.stopped_at
        task.exit_code, task.container_reason = exit_code, container_reason
        # A stop that was requested keeps its code, however the container ends.
        task.stop_code, task.stopped_reason = (
            task.stop_code or stop_code,
            task.stopped_reason or reason,
        )
        for listener in self.task_ended:
            listener(task)

    @operation
    def create_cluster(self, *, clusterName: str) -> Answer:
        arn = f"arn:aws:ecs:{REGION}:{ACCOUNT}:cluster/{clusterName}"
        self.clusters.setdefault(arn, Cluster(arn))
        return {"cluster": {"clusterArn": arn, "clusterName": clusterName, "status": "ACTIVE"}}

    @operation
    def register_task_definition(
        self,
        *,
        family: str,
        containerDefinitions: Sequence[Mapping[str, Any]],
        cpu: str = "1024",
        memory: str = "4096",
    ) -> Answer:
        revision = 1 + sum(each.family == family for each in self.definitions.values())
        arn = f"arn:aws:ecs:{REGION}:{ACCOUNT}:task-definition/{family}:{revision}"
        (container,) = containerDefinitions
        stop_timeout_s = container.get("stopTimeout", DEFAULT_STOP_TIMEOUT_S)
        self.definitions[arn] = Definition(
            arn,
            family,
            container["name"],
            stop_timeout_s,
            cpu,
            memory,
            tuple(container.get("environment", ())),
        )
        return {
            "taskDefinition": {"taskDefinitionArn": arn, "family": family, "revision": revision}
        }

    @operation
    def describe_task_definition(self, *, taskDefinition: str) -> Answer:
        found = self._definition(taskDefinition)
        return {
            "taskDefinition": {
                "taskDefinitionArn": found.arn,
                "family": found.family,
                "cpu": found.cpu,
                "containerDefinitions": [
                    {"name": found.container, "environment": [*found.environment]}
                ],
            }
        }

    @operation
    def run_task(self, *, taskDefinition: str, cluster: str = "default", **request: Any) -> Answer:
        cluster_ = self._cluster(cluster)
        definition = self._definition(taskDefinition)
        _check_run(request, definition.container)
        try:
            self.before_launch({"taskDefinition": taskDefinition, "cluster": cluster, **request})
        except Failure as failure:
            shown = {"arn": definition.arn, "reason": failure.reason, "detail": failure.detail}
            return {
                "tasks": [],
                "failures": [{name: value for name, value in shown.items() if value}],
            }
        self.launches.take(self._now())
        name = cluster_.arn.rpartition("/")[2]
        arn = f"arn:aws:ecs:{REGION}:{ACCOUNT}:task/{name}/{next(self._ids):032x}"
        task = cluster_.tasks[arn] = Task(arn, cluster_.arn, definition, request, self._now())
        answer: Answer = {"tasks": [task.described()], "failures": []}
        if self.containers is not None:
            self.containers.launched(task)
        return answer

    @operation
    def stop_task(
        self, *, task: str, cluster: str = "default", reason: str = "Task stopped by user"
    ) -> Answer:
        found = self._known(self._cluster(cluster), task)
        if found is None:
            raise RefusedError("InvalidParameterException", "The referenced task was not found.")
        if found.stopping_at is None:
            found.desired, found.stopping_at = "STOPPED", self._now()
            found.stop_code, found.stopped_reason = "UserInitiated", reason
            if self.containers is not None:
                self.containers.terminated(found)
        return {"task": found.described()}

    @operation
    def describe_tasks(self, *, tasks: Sequence[str], cluster: str = "default") -> Answer:
        if len(tasks) > 100:
            raise RefusedError(
                "InvalidParameterException", "Tasks cannot have more than 100 elements"
            )
        cluster_ = self._cluster(cluster)
        found = {name: self._known(cluster_, name) for name in tasks}
        return {
            "tasks": [task.described() for task in found.values() if task is not None],
            "failures": [
                {"arn": name, "reason": "MISSING"} for name, task in found.items() if task is None
            ],
        }

    @operation
    def list_tasks(
        self,
        *,
        cluster: str = "default",
        desiredStatus: str = "RUNNING",
        family: str | None = None,
        startedBy: str | None = None,
        maxResults: int = 100,
        nextToken: str | None = None,
    ) -> Answer:
        cluster_ = self._cluster(cluster)
        known = [
            task for arn in list(cluster_.tasks) if (task := self._known(cluster_, arn)) is not None
        ]
        found = [
            task.arn
            for task in known
            if task.desired == desiredStatus
            and family in (None, task.definition.family)
            and startedBy in (None, task.request.get("startedBy"))
        ]
        return page_of("taskArns", found, nextToken, maxResults)

    def _known(self, cluster: Cluster, task: str) -> Task | None:
        """A task by ARN or id, unless it stopped too long ago."""
        arn = (
            task
            if task.startswith("arn:")
            else f"{cluster.arn.replace(':cluster/', ':task/')}/{task}"
        )
        found = cluster.tasks.get(arn)
        if found is None:
            return None
        if found.killed_at is not None and self._now() >= found.killed_at:
            self.end(found, stop_code="UserInitiated", reason="", exit_code=137, at=found.killed_at)
        if found.stopped_at is not None and self._now() - found.stopped_at >= DESCRIBABLE:
            return None
        return found

    def _cluster(self, name: str) -> Cluster:
        arn = name if name.startswith("arn:") else f"arn:aws:ecs:{REGION}:{ACCOUNT}:cluster/{name}"
        return known(self.clusters, arn, "ClusterNotFoundException", "Cluster not found.")

    def _definition(self, name: str) -> Definition:
        """A task definition by ARN, `family:revision`, or the newest of a family."""
        named = {}
        for definition in self.definitions.values():
            named[definition.family] = named[definition.arn.rpartition("/")[2]] = definition
        return known(named, name.rpartition("/")[2], "ClientException", "TaskDefinition not found.")


def _check_run(request: Mapping[str, Any], container: str) -> None:
    known = {
        "startedBy",
        "overrides",
        "launchType",
        "networkConfiguration",
        "capacityProviderStrategy",
        "platformVersion",
        "propagateTags",
        "enableECSManagedTags",
        "tags",
    }
    if unknown := request.keys() - known:
        raise TypeError(f"RunTask: this fake does not know {unknown}")
    if len(json.dumps(request.get("overrides", {}))) > _MAX_OVERRIDES:
        raise RefusedError(
            "InvalidParameterException", "Container Overrides length must be at most 8192"
        )
    for override in request.get("overrides", {}).get("containerOverrides", []):
        if override.get("name") != container:
            raise RefusedError(
                "InvalidParameterException",
                f"Override for container named {override.get('name')} is not a container in the"
                " TaskDefinition.",
            )
    if len(request.get("startedBy", "")) > _MAX_STARTED_BY:
        raise RefusedError("InvalidParameterException", "startedBy length must be at most 128")
    if "launchType" in request and "capacityProviderStrategy" in request:
        raise RefusedError(
            "InvalidParameterException",
            "Specifying both a launch type and capacity provider strategy is not supported.",
        )
