"""Applications and job runs of the EMR Serverless fake, and how GetJobRun shows a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from simulation.aws.service import Answer

WAITING = ("SUBMITTED", "QUEUED", "PENDING", "SCHEDULED")
"""States of a job run before its driver runs, in order."""

ENDED = ("SUCCESS", "FAILED", "CANCELLED")

_DRIVER_ENVIRONMENT = "spark.emr-serverless.driverEnv."
_SHOWN_DETAILS = 256
"""Characters of `stateDetails`, as people met them."""


@dataclass(eq=False)
class JobRun:
    application: "Application" = field(repr=False)
    id: str
    token: str
    request: Mapping[str, Any]  # StartJobRun's arguments
    created_at: datetime
    updated_at: datetime
    state: str = "SUBMITTED"
    details: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def arn(self) -> str:
        return f"{self.application.arn}/jobruns/{self.id}"

    @property
    def is_over(self) -> bool:
        return self.state in ENDED

    @property
    def options(self) -> dict[str, str]:
        """The configuration in its SparkSubmitParameters, which EMR splits at spaces."""
        submit = self.request["jobDriver"]["sparkSubmit"]
        return options_in(submit.get("sparkSubmitParameters", ""))

    @property
    def environment(self) -> dict[str, str]:
        """The driver's, as far as the request sets it."""
        return {
            name.removeprefix(_DRIVER_ENVIRONMENT): value
            for name, value in self.options.items()
            if name.startswith(_DRIVER_ENVIRONMENT)
        }

    def summary(self) -> Answer:
        return self._shown(id=self.id)

    def described(self) -> Answer:
        more = {
            "jobRunId": self.id,
            "jobDriver": self.request["jobDriver"],
            "executionTimeoutMinutes": self.request.get("executionTimeoutMinutes", 720),
            "tags": {},
            "attempt": 1,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
        }
        return self._shown(**more)

    def _shown(self, **more: Any) -> Answer:
        shown: dict[str, Any] = {
            "applicationId": self.application.id,
            "name": self.request.get("name"),
            "mode": "BATCH",
            "arn": self.arn,
            "createdBy": "arn:aws:sts::123456789012:assumed-role/Longhaul/execution",
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "executionRole": self.request["executionRoleArn"],
            "state": self.state,
            "stateDetails": (self.details or self.state)[:_SHOWN_DETAILS],
            "releaseLabel": self.application.release_label,
            **more,
        }
        return {name: value for name, value in shown.items() if value is not None}


@dataclass(eq=False)
class Application:
    """`vcpu`: the most that all its workers may have. `most_runs`: at once; others are QUEUED."""

    arn: str
    name: str
    release_label: str
    vcpu: int
    most_runs: int
    starts_by_itself: bool
    idle_stop_s: float | None
    created_at: datetime
    state: str = "CREATED"
    runs: dict[str, JobRun] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.arn.rpartition("/")[2]

    def in_states(self, states: tuple[str, ...]) -> list[JobRun]:
        return [each for each in self.runs.values() if each.state in states]


def options_in(parameters: str) -> dict[str, str]:
    """The options of `--conf name=value …`.

    Raises:
        ValueError: the parameters are none of these.
    """
    words = parameters.split()
    if len(words) % 2 or any(word != "--conf" for word in words[::2]):
        raise ValueError(f"not a list of --conf name=value: {parameters}")
    return dict(word.split("=", 1) for word in words[1::2])
