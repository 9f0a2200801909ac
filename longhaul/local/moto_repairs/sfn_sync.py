"""The `.sync` integrations of Step Functions."""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from threading import Event
from typing import Any, Final, TypeAlias

from botocore.exceptions import ClientError
from moto.stepfunctions.parser.api import HistoryEventType, TaskFailedEventDetails
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import (
    CustomErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import (
    StatesErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
    StatesErrorNameType,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task import state_task_factory
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_callback,
    state_task_service_factory,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import (
    ResourceCondition,
)
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.eval.program_state import ProgramEnded

from longhaul.local.moto_repairs.patching import Patches

ClientFor: TypeAlias = Callable[[str, str, Any], Any]
_Said: TypeAlias = Mapping[str, Any]
OnEnd: TypeAlias = Callable[[str, Callable[[], None]], None]


def services(
    patches: Patches,
    client_for: ClientFor,
    *,
    tasks: OnEnd | None = None,
    job_runs: OnEnd | None = None,
) -> None:
    """`.sync` states of ECS and EMR Serverless succeed or fail with what they start.

    AWS: the state succeeds when its task has stopped and every container exited with 0, or its job
    run ended in SUCCESS. Otherwise it fails with `States.TaskFailed`, and the description as JSON
    in the cause. What runs is stopped when the execution is stopped or a sibling branch of a
    Parallel state fails. An error of RunTask is named `ECS.<code>`, or `AmazonECS.Unknown` when
    RunTask returns 200 with failures.

    Stock moto: ignores exit codes, and lets the task of a stopped execution run on. Errors of
    RunTask become `States.Runtime`, which no Catch sees. The task is described twice a second. It
    has no integration of EMR Serverless.

    AWS does not document whether the state's TimeoutSeconds stops what runs. Here it does not, so a
    program that relies on it fails here first.

    Args:
        patches: takes the replaced attributes.
        client_for: returns a client, by region, service and the credentials of the state.
        tasks: takes a task's ARN and a callback for its end, which comes at once if the task has
            stopped already.
        job_runs: the same for job runs.
    """
    stock = state_task_service_factory.state_task_service_for

    def state_task_service_for(service_name: str) -> Any:
        if service_name == "ecs" and tasks is not None:
            return _Sync(_Tasks(), client_for, tasks)
        if service_name == "emr-serverless" and job_runs is not None:
            return _Sync(_JobRuns(), client_for, job_runs)
        return stock(service_name)

    for module in (state_task_service_factory, state_task_factory):
        if hasattr(module, "state_task_service_for"):
            patches.replace(module, "state_task_service_for", state_task_service_for)


class _Sync(state_task_service_callback.StateTaskServiceCallback):
    """Starts something, and waits for its end."""

    def __init__(self, kind: "_Tasks | _JobRuns", client_for: ClientFor, on_end: OnEnd) -> None:
        patterns: Any = {ResourceCondition.Sync}
        super().__init__(supported_integration_patterns=patterns)
        self._kind = kind
        self._client_for = client_for
        self._on_end = on_end

    def _get_supported_parameters(self) -> set[str] | None:
        return self._kind.PARAMETERS

    def _eval_service_task(
        self,
        env: Any,
        resource_runtime_part: Any,
        normalised_parameters: dict[str, Any],
        state_credentials: Any,
    ) -> None:
        client = self._client_for(
            resource_runtime_part.region, self._kind.SERVICE, state_credentials
        )
        try:
            started = self._kind.start(client, normalised_parameters)
        except ClientError as error:
            said = error.response.get("Error", {})
            model = client.meta.service_model.operation_model(self._kind.OPERATION)
            modelled = {shape.name for shape in model.error_shapes}
            code = said["Code"] if said.get("Code") in modelled else self._kind.UNMODELLED
            self._fail(env, CustomErrorName(f"{self._kind.ERRORS}.{code}"), said.get("Message", ""))
        started.pop("ResponseMetadata", None)
        self._normalise_response(response=started)
        if self._kind.arn_of(started) is None:
            self._fail(env, CustomErrorName("AmazonECS.Unknown"), "RunTask started no task")
        env.stack.append(started)

    def _eval_integration_pattern(
        self,
        env: Any,
        resource_runtime_part: Any,
        normalised_parameters: dict[str, Any],
        state_credentials: Any,
    ) -> None:
        del normalised_parameters
        client = self._client_for(
            resource_runtime_part.region, self._kind.SERVICE, state_credentials
        )
        started = env.stack.pop()
        changed = Event()
        self._on_end(self._kind.arn_of(started) or "", changed.set)
        env.program_state_event.on_set(changed.set)
        changed.wait()
        if env.is_running():
            described = self._kind.describe(client, started)
            self._normalise_response(response=described, service_action_name=self._kind.DESCRIBE)
            ended = _jsonable(self._kind.of_one(described))
            if not self._kind.succeeded(ended):
                name = StatesErrorName(StatesErrorNameType.StatesTaskFailed)
                self._fail(env, name, json.dumps(ended))
            env.stack.append(ended)
            return
        # The state has ended first: by a stop, an error elsewhere, or its timeout.
        if not isinstance(env.program_state(), ProgramEnded):
            with suppress(ClientError):  # it has just ended
                self._kind.stop(client, started)
        env.stack.append(None)

    def _fail(self, env: Any, error_name: Any, cause: str) -> None:
        details: Any = TaskFailedEventDetails(
            error=error_name.error_name,
            cause=cause,
            resource=self._get_sfn_resource(),
            resourceType=self._get_sfn_resource_type(),
        )
        raise FailureEventException(
            FailureEvent(
                env=env,
                error_name=error_name,
                event_type=HistoryEventType.TaskFailed,
                event_details=EventDetails(taskFailedEventDetails=details),  # type: ignore[typeddict-item] # moto sets one key of many
            )
        )


def _jsonable(value: Any) -> Any:
    """A description as Step Functions writes it: times in epoch milliseconds."""
    if isinstance(value, dict):
        return {key: _jsonable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_jsonable(inner) for inner in value]
    return int(value.timestamp() * 1000) if isinstance(value, datetime) else value


class _Tasks:
    SERVICE = "ecs"
    OPERATION = "RunTask"
    DESCRIBE = "describe_tasks"
    PARAMETERS: Final = {
        "CapacityProviderStrategy",
        "Cluster",
        "EnableExecuteCommand",
        "Group",
        "LaunchType",
        "NetworkConfiguration",
        "Overrides",
        "PlatformVersion",
        "PropagateTags",
        "Tags",
        "TaskDefinition",
    }
    ERRORS = "ECS"
    UNMODELLED = "AmazonECSException"

    def start(self, client: Any, parameters: _Said) -> Any:
        return client.run_task(startedBy="AWS Step Functions", **parameters)

    def arn_of(self, started: _Said) -> str | None:
        return next((task["TaskArn"] for task in started["Tasks"]), None)

    def describe(self, client: Any, started: _Said) -> Any:
        (task,) = started["Tasks"]
        return client.describe_tasks(cluster=task["ClusterArn"], tasks=[task["TaskArn"]])

    def of_one(self, described: _Said) -> Any:
        return described["Tasks"][0]

    def stop(self, client: Any, started: _Said) -> None:
        (task,) = started["Tasks"]
        reason = "Stopped by AWS Step Functions"
        client.stop_task(cluster=task["ClusterArn"], task=task["TaskArn"], reason=reason)

    def succeeded(self, ended: _Said) -> bool:
        return ended.get("StopCode") != "TaskFailedToStart" and all(
            container.get("ExitCode") == 0 for container in ended.get("Containers", [])
        )


class _JobRuns:
    SERVICE = "emr-serverless"
    OPERATION = "StartJobRun"
    DESCRIBE = "get_job_run"
    PARAMETERS: Final = {
        "ApplicationId",
        "ClientToken",
        "ConfigurationOverrides",
        "ExecutionRoleArn",
        "ExecutionTimeoutMinutes",
        "JobDriver",
        "Name",
        "Tags",
    }
    ERRORS = "EMRServerless"
    UNMODELLED = "EMRServerlessException"

    def start(self, client: Any, parameters: _Said) -> Any:
        return client.start_job_run(**parameters)

    def arn_of(self, started: _Said) -> str | None:
        return str(started["Arn"])

    def describe(self, client: Any, started: _Said) -> Any:
        return client.get_job_run(**_ids(started))

    def of_one(self, described: _Said) -> Any:
        return described["JobRun"]

    def stop(self, client: Any, started: _Said) -> None:
        client.cancel_job_run(**_ids(started))

    def succeeded(self, ended: _Said) -> bool:
        return bool(ended["State"] == "SUCCESS")


def _ids(started: _Said) -> dict[str, str]:
    return {"applicationId": started["ApplicationId"], "jobRunId": started["JobRunId"]}
