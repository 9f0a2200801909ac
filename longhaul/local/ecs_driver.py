"""ECS on this machine: a task is a process group that runs the container's command."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from longhaul.local.credentials import ADMINISTRATOR, Credentials
from longhaul.local.host import Host
from longhaul.local.processes import MemoryLimits, ProcessGroup, inherited_environment
from longhaul.local.supervised import Observer, Run, Spec, Supervisor

METADATA_VARIABLE = "ECS_CONTAINER_METADATA_URI_V4"
# ECS's default for a container without stopTimeout.
DEFAULT_STOP_TIMEOUT_S = 30
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/stopped-task-error-codes.html
OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"
_MIB = 1024**2


@dataclass(frozen=True, kw_only=True)
class TaskSpec(Spec):
    """A task definition with its overrides applied."""

    cluster_arn: str
    family: str
    revision: int
    container: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    stop_timeout_s: int = DEFAULT_STOP_TIMEOUT_S
    # Reported to the task by its metadata, as on Fargate. Memory is limited, vCPUs are not.
    vcpu: float | None = None
    memory_mib: int | None = None
    execution_role: str | None = None
    credentials: Credentials = ADMINISTRATOR

    @property
    def log_stream(self) -> str:
        return f"{self.log_prefix}/{self.container}/{self.id}"


@dataclass(frozen=True)
class TaskEnd:
    """The end of a task, in ECS's terms. Without an exit code the container never started."""

    stop_code: str
    reason: str
    exit_code: int | None = None
    container_reason: str | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class EcsDriver(Supervisor[TaskSpec, TaskEnd]):
    def __init__(
        self, host: Host, *, cwd: Path, image_environment: Mapping[str, str] | None = None
    ) -> None:
        """Commands run in `cwd`, in the place of the image's WORKDIR, with its ENV."""
        super().__init__(host, "tasks")
        self._cwd = cwd
        self._image_environment = dict(image_environment or {})
        self._memory = MemoryLimits()

    def run(self, spec: TaskSpec, observer: Observer[TaskEnd]) -> None:
        """Start the task.

        Raises:
            NotTrustedError: a role of the task does not trust ECS, and nothing was started.
        """
        if spec.execution_role is not None:
            self._lent(spec, spec.execution_role)
        if spec.role is not None:
            spec = replace(spec, credentials=self._lent(spec, spec.role))
        super().run(spec, observer)

    def close(self) -> None:
        super().close()
        self._memory.close()

    def metadata(self, path: str) -> str | None:
        """What `/v4/ID/task` of the task metadata endpoint says; None: there is no such task.

        https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-fargate.html
        """
        specs = [run.spec for run in list(self._runs.values())]
        spec = next((each for each in specs if path == f"/v4/{each.id}/task"), None)
        if spec is None:
            return None
        said = {
            "Cluster": spec.cluster_arn,
            "TaskARN": spec.arn,
            "Family": spec.family,
            "Revision": str(spec.revision),
            "DesiredStatus": "RUNNING",
            "KnownStatus": "RUNNING",
            "LaunchType": "FARGATE",
            "Limits": {"CPU": spec.vcpu, "Memory": spec.memory_mib},
            "Containers": [{"DockerId": f"{spec.id}-0", "Name": spec.container}],
        }
        return json.dumps(said)

    def _break_off(self, spec: TaskSpec, process: ProcessGroup) -> None:
        process.ask_to_end(spec.stop_timeout_s)

    def _run_to_the_end(self, run: Run[TaskSpec, TaskEnd], temporary: Path) -> TaskEnd:
        spec = run.spec
        program, *arguments = spec.command
        if program in {"python", "python3"}:
            program = sys.executable
        try:
            temporary.mkdir(parents=True)
            process = self._launch(
                run,
                [program, *arguments],
                cwd=self._cwd,
                environment=self._environment(spec, temporary),
            )
        except OSError as error:
            return TaskEnd("TaskFailedToStart", f"CannotStartContainerError: {error}")
        exit_code = why = None
        if process is not None:
            if spec.memory_mib is not None:
                self._memory.put(process.pid, spec.memory_mib * _MIB)
            exit_code = process.wait()
            why = OUT_OF_MEMORY if self._memory.lift(process.pid) else None
        with run.lock:
            if run.stop_reason is not None:
                return TaskEnd("UserInitiated", run.stop_reason, exit_code, why)
        said = "Essential container in task exited"
        return TaskEnd("EssentialContainerExited", said, exit_code, why)

    def _lent(self, spec: TaskSpec, role: str) -> Credentials:
        # ECS names a pattern of its resources, and not the task.
        # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html
        source = f"{spec.arn.partition(':task/')[0]}:*"
        return self.host.lend(role, spec.id, "ecs-tasks", source)

    def _environment(self, spec: TaskSpec, temporary: Path) -> dict[str, str]:
        return (
            inherited_environment()
            | {"PYTHONUNBUFFERED": "1"}
            | self._image_environment
            | spec.environment
            | self.host.environment(spec.credentials)
            | {
                METADATA_VARIABLE: f"{self.host.endpoint}/v4/{spec.id}",
                "TMPDIR": str(temporary),
            }
        )
