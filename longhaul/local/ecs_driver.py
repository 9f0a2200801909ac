"""ECS on this machine: a task is a process group that runs the container's command."""

import json
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Timer
from typing import Protocol

from longhaul.local.credentials import (
    ADMINISTRATOR,
    Credentials,
    Lend,
    child_environment,
    lend_none,
)
from longhaul.local.http_services import HttpService, QuietHandler
from longhaul.local.log_shipper import LogShipper
from longhaul.local.private_files import make_private_folder
from longhaul.local.processes import MemoryLimits, ProcessGroup, inherited_environment
from longhaul.local.supervisor import Supervisor

METADATA_VARIABLE = "ECS_CONTAINER_METADATA_URI_V4"
# ECS's default for a container without stopTimeout.
DEFAULT_STOP_TIMEOUT_S = 30
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/stopped-task-error-codes.html
OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"
_MIB = 1024**2


@dataclass(frozen=True)
class TaskSpec:
    """A task definition with its overrides applied."""

    arn: str
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
    # Group and stream prefix of the container's `awslogs` driver; None without one.
    log_group: str | None = None
    log_prefix: str = ""
    role: str | None = None
    execution_role: str | None = None

    @property
    def id(self) -> str:
        return self.arn.rsplit("/", 1)[-1]

    @property
    def log_stream(self) -> str:
        """The name that ECS gives the stream."""
        return f"{self.log_prefix}/{self.container}/{self.id}"


@dataclass(frozen=True)
class TaskEnd:
    """The end of a task, in ECS's terms. Without an exit code the container never started."""

    stop_code: str
    reason: str
    exit_code: int | None
    at: datetime
    container_reason: str | None = None


class TaskObserver(Protocol):
    """Called from the task's thread."""

    def started(self, at: datetime) -> None: ...

    def stopped(self, end: TaskEnd) -> None: ...


class _Task:
    def __init__(self, spec: TaskSpec, credentials: Credentials, observer: TaskObserver) -> None:
        self.spec = spec
        self.credentials = credentials
        self.observer = observer
        self.lock = Lock()
        self.process: ProcessGroup | None = None
        self.stop_reason: str | None = None
        self.killer: Timer | None = None


class EcsDriver:
    def __init__(
        self,
        *,
        endpoint: str,
        region: str,
        work_dir: Path,
        cwd: Path,
        shipper: LogShipper,
        image_environment: Mapping[str, str] | None = None,
        lend: Lend = lend_none,
    ) -> None:
        """Commands run in `cwd`, in the place of the image's WORKDIR, with its ENV."""
        self._image_environment = dict(image_environment or {})
        self._shipper = shipper
        self._lend = lend
        self._endpoint = endpoint
        self._region = region
        self._logs = work_dir / "tasks"
        self._cwd = cwd
        self._tasks: Supervisor[_Task] = Supervisor()
        self._memory = MemoryLimits()
        self._metadata = HttpService(_metadata_handler(self._spec_of))

    def run(self, spec: TaskSpec, observer: TaskObserver) -> None:
        """Start the task.

        Raises:
            NotTrustedError: a role of the task does not trust ECS, and nothing was started.
        """
        if spec.execution_role is not None:
            self._lent(spec, spec.execution_role)
        credentials = self._lent(spec, spec.role) if spec.role is not None else ADMINISTRATOR
        self._tasks.start(spec.arn, _Task(spec, credentials, observer), self._run)

    def stop(self, arn: str, reason: str) -> None:
        """Send SIGTERM to the task's first process, and SIGKILL to all after its stop timeout.

        Does nothing to a task that has ended.
        """
        task = self._tasks[arn]
        with task.lock:
            if self._tasks.has_ended(arn) or task.stop_reason is not None:
                return
            task.stop_reason = reason
            if task.process is not None:
                task.process.ask_to_end()
                task.killer = Timer(task.spec.stop_timeout_s, task.process.send, [signal.SIGKILL])
                task.killer.daemon = True
                task.killer.start()

    def on_end(self, arn: str, callback: Callable[[], None]) -> None:
        """Call back when the task has ended; at once if it already has."""
        self._tasks.on_end(arn, callback)

    def log_of(self, arn: str) -> Path:
        return self._logs / f"{arn.rsplit('/', 1)[-1]}.log"

    def close(self) -> None:
        """Stop every task as StopTask does, and wait for its end."""
        self._tasks.close()
        for arn in self._tasks:
            self.stop(arn, "the embedded AWS is stopping")
        self._tasks.join()
        self._memory.close()
        self._metadata.close()

    def _run(self, task: _Task) -> None:
        spec = task.spec
        # Ship before the end is reported: a client that then reads the log finds all of it.
        with self._shipper.following(self.log_of(spec.arn), spec.log_group, spec.log_stream):
            try:
                end = self._run_to_the_end(task)
            finally:
                # On Fargate a task's disk goes with it, also that of a killed one.
                shutil.rmtree(self._temporary_of(spec), ignore_errors=True)
        task.observer.stopped(end)

    def _run_to_the_end(self, task: _Task) -> TaskEnd:
        spec = task.spec
        with task.lock:
            if task.stop_reason is not None:
                return TaskEnd("UserInitiated", task.stop_reason, None, datetime.now(UTC))
            program, *arguments = spec.command
            if program in {"python", "python3"}:
                program = sys.executable
            try:
                make_private_folder(self._temporary_of(spec))
                task.process = ProcessGroup(
                    [program, *arguments],
                    cwd=self._cwd,
                    environment=self._environment(task),
                    log=self.log_of(spec.arn),
                )
            except OSError as error:
                return TaskEnd(
                    "TaskFailedToStart",
                    f"CannotStartContainerError: {error}",
                    None,
                    datetime.now(UTC),
                )
        if spec.memory_mib is not None:
            self._memory.put(task.process.pid, spec.memory_mib * _MIB)
        task.observer.started(datetime.now(UTC))
        exit_code = task.process.wait()
        why = OUT_OF_MEMORY if self._memory.lift(task.process.pid) else None
        with task.lock:
            if task.killer is not None:
                task.killer.cancel()
            if task.stop_reason is not None:
                return TaskEnd("UserInitiated", task.stop_reason, exit_code, datetime.now(UTC), why)
        return TaskEnd(
            "EssentialContainerExited",
            "Essential container in task exited",
            exit_code,
            datetime.now(UTC),
            why,
        )

    def _lent(self, spec: TaskSpec, role: str) -> Credentials:
        # ECS names a pattern of its resources, and not the task.
        # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html
        source = f"{spec.arn.partition(':task/')[0]}:*"
        return self._lend(role, spec.id, "ecs-tasks", source)

    def _environment(self, task: _Task) -> dict[str, str]:
        spec = task.spec
        return (
            inherited_environment()
            | {"PYTHONUNBUFFERED": "1"}
            | self._image_environment
            | spec.environment
            | child_environment(self._endpoint, self._region, task.credentials)
            | {
                METADATA_VARIABLE: f"http://{self._metadata.address}/v4/{spec.id}",
                "TMPDIR": str(self._temporary_of(spec)),
            }
        )

    def _temporary_of(self, spec: TaskSpec) -> Path:
        return self.log_of(spec.arn).with_suffix(".tmp")

    def _spec_of(self, task_id: str) -> TaskSpec | None:
        return next(
            (spec for spec in (self._tasks[arn].spec for arn in self._tasks) if spec.id == task_id),
            None,
        )


def _metadata_handler(spec_of: Callable[[str], TaskSpec | None]) -> type[QuietHandler]:
    """The task metadata endpoint, version 4.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-fargate.html
    """

    class Metadata(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the base class's name
            _, version, task_id, *rest = [*self.path.split("/"), "", ""][:4]
            spec = spec_of(task_id)
            if version != "v4" or spec is None or rest not in ([""], ["task"]):
                self.respond(404)
                return
            container = {
                "DockerId": f"{spec.id}-0",
                "Name": spec.container,
                "KnownStatus": "RUNNING",
                "DesiredStatus": "RUNNING",
            }
            task = {
                "Cluster": spec.cluster_arn,
                "TaskARN": spec.arn,
                "Family": spec.family,
                "Revision": str(spec.revision),
                "DesiredStatus": "RUNNING",
                "KnownStatus": "RUNNING",
                "LaunchType": "FARGATE",
                "Limits": {"CPU": spec.vcpu, "Memory": spec.memory_mib},
                "Containers": [container],
            }
            self.respond(200, json.dumps(task if rest == ["task"] else container).encode())

    return Metadata
