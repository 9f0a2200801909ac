"""Repairs of ECS."""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.ecs.exceptions import EcsClientException, InvalidParameterException
from moto.ecs.models import EC2ContainerServiceBackend, TaskDefinition
from moto.ecs.responses import EC2ContainerServiceResponse

from longhaul.local.credentials import NotTrustedError
from longhaul.local.ecs_driver import DEFAULT_STOP_TIMEOUT_S, EcsDriver, TaskEnd, TaskSpec
from longhaul.local.moto_repairs.patching import Patches

_ROLES = {"TaskRoleArn": "task_role_arn", "ExecutionRoleArn": "execution_role_arn"}


def definitions(patches: Patches) -> None:
    """A task definition of a stack keeps its CPU and its roles.

    AWS: tasks get the `Cpu` of their AWS::ECS::TaskDefinition, and read it in their metadata. They
    act as its `TaskRoleArn`.

    Stock moto: CloudFormation passes on the memory and drops the CPU and the roles.
    """

    def change(made: Any, properties: Mapping[str, Any]) -> None:
        made.cpu = properties.get("Cpu")
        for name, role in _ROLES.items():
            if name in properties:
                setattr(made, role, properties[name])

    patches.complete(TaskDefinition, change)


MEMORY_KEYS = {"memory", "Memory", "memoryReservation", "MemoryReservation"}


def resources(patches: Patches) -> None:
    """A Fargate container needs no memory of its own.

    AWS: on Fargate, memory is set for the task, and a container's `Memory` is optional.

    Stock moto: RunTask adds up the containers' memory and fails when one has none.
    """
    stock = EC2ContainerServiceBackend._calculate_task_resource_requirements

    def calculate(task_definition: Any) -> Any:
        for container in task_definition.container_definitions:
            if not MEMORY_KEYS & container.keys():
                container["memory"] = 0
        return stock(task_definition)

    patches.replace(
        EC2ContainerServiceBackend, "_calculate_task_resource_requirements", staticmethod(calculate)
    )


# One vCPU in the units of task definitions.
_CPU_UNITS = 1024


def tasks(patches: Patches, driver: EcsDriver) -> None:
    """Tasks run.

    AWS: RunTask starts the container. DescribeTasks reports its state (PROVISIONING, RUNNING,
    STOPPED), exit code, stop code and times, and lists unknown tasks under `failures`. StopTask
    stops the task, which takes time. RunTask is refused where a role of the task does not trust
    ECS.

    Stock moto: starts nothing. Each DescribeTasks moves the task to its next state, and the exit
    code is always 0. StopTask of an unknown task is a 500.
    """
    stock_run = EC2ContainerServiceBackend.run_task
    stock_describe = EC2ContainerServiceResponse.describe_tasks

    @patches.replacing(EC2ContainerServiceBackend, "run_task")
    def run_task(backend: Any, *args: Any, **kwargs: Any) -> Any:
        tasks = stock_run(backend, *args, **kwargs)
        try:
            specs = [_spec(backend, task) for task in tasks]
            for task, spec in zip(tasks, specs, strict=True):
                _provision(task)
                # The tasks of a call have the same roles: the first one is refused, or none.
                driver.run(spec, _MotoTask(task))
        except (InvalidParameterException, NotTrustedError) as error:
            for task in tasks:
                del backend.tasks[task.cluster_name][task.task_arn]
            if isinstance(error, NotTrustedError):
                raise EcsClientException(_not_assumed(error.role)) from error
            raise
        return tasks

    @patches.replacing(EC2ContainerServiceBackend, "stop_task")
    def stop_task(backend: Any, cluster_str: str, task_str: str, reason: str | None) -> Any:
        found = _find(backend, cluster_str, task_str)
        if found.status != "STOPPED":
            found.desired_status = "STOPPED"
            driver.stop(found.task_arn, reason or "Task stopped by user")
        return found

    @patches.replacing(EC2ContainerServiceResponse, "describe_tasks")
    def describe_tasks(response: Any) -> Any:
        result: Any = stock_describe(response).result
        known = {part for task in result["tasks"] for part in (task.task_arn, task.id)}
        missing = [asked for asked in response._get_param("tasks", []) if asked not in known]
        return ActionResult(
            {**result, "failures": [{"arn": asked, "reason": "MISSING"} for asked in missing]}
        )


class _MotoTask:
    """Copies a task's start and end to moto's record of the task."""

    def __init__(self, task: Any) -> None:
        self._task = task

    def started(self, at: datetime) -> None:
        self._task.started_at = at
        self._task.status = self._task.containers[0].last_status = "RUNNING"

    def ended(self, end: TaskEnd) -> None:
        container = self._task.containers[0]
        container.exitCode = end.exit_code
        if end.container_reason is not None:
            container.reason = end.container_reason
        container.last_status = "STOPPED"
        self._task.stop_code = end.stop_code
        self._task.stopped_reason = end.reason
        self._task.stopped_at = end.at
        self._task.desired_status = "STOPPED"
        # Last, so that a reader who sees STOPPED sees the rest too.
        self._task.status = "STOPPED"


def _provision(task: Any) -> None:
    task.advance = lambda: None
    task.status = "PROVISIONING"
    task.created_at = datetime.now(UTC)
    task.containers[0].exitCode = None


def _not_assumed(role: str) -> str:
    return (
        f"ECS was unable to assume the role '{role}' that was provided for this task. Please "
        "verify that the role being passed has the proper trust relationship and permissions and "
        "that your IAM user has permissions to pass this role."
    )


def _spec(backend: Any, task: Any) -> TaskSpec:
    definition = backend.describe_task_definition(task.task_definition_arn)
    (container,) = definition.container_definitions
    environment = {pair["name"]: pair["value"] for pair in container.get("environment", [])}
    logging = container.get("logConfiguration", {}).get("options", {})
    command = container.get("command") or []
    for override in task.overrides.get("containerOverrides", []):
        if override["name"] != container["name"]:
            raise InvalidParameterException(
                f"Override for container named {override['name']} "
                "is not a container in the TaskDefinition."
            )
        environment |= {pair["name"]: pair["value"] for pair in override.get("environment", [])}
        command = override.get("command") or command
    if not command:
        raise InvalidParameterException(
            f"{definition.family}: the embedded AWS runs commands, not images: "
            "the container needs one"
        )
    return TaskSpec(
        arn=task.task_arn,
        cluster_arn=task.cluster_arn,
        family=definition.family,
        revision=definition.revision,
        container=container["name"],
        command=(*(container.get("entryPoint") or []), *command),
        environment=environment,
        stop_timeout_s=int(container.get("stopTimeout") or DEFAULT_STOP_TIMEOUT_S),
        log_group=logging.get("awslogs-group"),
        log_prefix=logging.get("awslogs-stream-prefix", ""),
        role=task.overrides.get("taskRoleArn") or getattr(definition, "task_role_arn", None),
        execution_role=task.overrides.get("executionRoleArn")
        or getattr(definition, "execution_role_arn", None),
        vcpu=int(definition.cpu) / _CPU_UNITS if definition.cpu else None,
        memory_mib=int(definition.memory) if definition.memory else None,
    )


def _find(backend: Any, cluster: str, task: str) -> Any:
    tasks = backend.tasks.get(backend._get_cluster(cluster).name, {})
    found = next((known for arn, known in tasks.items() if task in {arn, known.id}), None)
    if found is None:
        raise InvalidParameterException("The referenced task was not found.")
    return found
