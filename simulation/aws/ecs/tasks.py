"""Tasks of the ECS fake, and how DescribeTasks shows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from simulation.aws.service import Answer

_NO_ARGUMENTS: Mapping[str, Any] = {}


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
    def environment(self) -> dict[str, str]:
        """The container's environment from RunTask's overrides."""
        overrides = self.request.get("overrides", _NO_ARGUMENTS).get("containerOverrides", [])
        return {
            each["name"]: each["value"]
            for override in overrides
            for each in override.get("environment", [])
        }

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
