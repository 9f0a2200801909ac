"""Repairs of the `.sync` integrations of Step Functions."""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from threading import Event
from typing import Any

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
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_ecs as stock_module,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import (
    ResourceCondition,
)
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.eval.program_state import ProgramEnded

from longhaul.local.moto_repairs.patching import Patches

StateTaskServiceEcs = stock_module.StateTaskServiceEcs
# The name of an error of RunTask that its API model does not list.
UNMODELLED = "AmazonECSException"


def ecs_sync(patches: Patches, on_task_end: Callable[[str, Callable[[], None]], None]) -> None:
    """`ecs:runTask.sync` succeeds or fails with its task.

    AWS: the state succeeds when the task has stopped and every container exited with 0. Otherwise
    it fails with `States.TaskFailed` and the task's description as JSON in the cause. The task is
    stopped when the execution is stopped or a sibling branch of a Parallel state fails. An error of
    RunTask is named `ECS.<code>`, or `AmazonECS.Unknown` when RunTask returns 200 with failures.

    Stock moto: ignores exit codes, and lets the task of a stopped execution run on. Errors of
    RunTask become `States.Runtime`, which no Catch sees. The task is described twice a second.

    AWS does not document whether the state's TimeoutSeconds stops the task. Here it does not, so a
    program that relies on it fails here first.

    Args:
        patches: takes the replaced attributes.
        on_task_end: takes a task's ARN and a callback for its end, which comes at once if the task
            has stopped already.
    """
    stock_eval_service_task = StateTaskServiceEcs._eval_service_task
    stock_build_resolver: Any = StateTaskServiceEcs._build_sync_resolver
    stock_eval_sync: Any = StateTaskServiceEcs._eval_sync

    def eval_service_task(state: Any, env: Any, **kwargs: Any) -> None:
        try:
            stock_eval_service_task(state, env=env, **kwargs)
        except ClientError as error:
            code, message = code_and_message(error, UNMODELLED)
            modelled = {
                shape.name for shape in _run_task_errors(kwargs["resource_runtime_part"].region)
            }
            fail(
                state,
                env,
                CustomErrorName(f"ECS.{code if code in modelled else UNMODELLED}"),
                message,
            )
        except IndexError:  # stock moto reads the first task of an empty list
            fail(state, env, CustomErrorName("AmazonECS.Unknown"), "RunTask started no task")

    def build_sync_resolver(state: Any, env: Any, *args: Any, **kwargs: Any) -> Callable[[], Any]:
        task = env.stack[-1]["Tasks"][0]
        describe = stock_build_resolver(state, env, *args, **kwargs)

        def stop() -> None:
            region = task["TaskArn"].split(":")[3]
            _ecs_client(region, kwargs.get("state_credentials")).stop_task(
                cluster=task["ClusterArn"],
                task=task["TaskArn"],
                reason="Stopped by AWS Step Functions",
            )

        def resolve() -> Any:
            if not has_ended(env, task["TaskArn"], on_task_end, stop):
                return None
            stopped = jsonable(describe())
            if not _succeeded(stopped):
                fail_with(state, env, stopped)
            return stopped

        return resolve

    def eval_sync(state: Any, env: Any, **kwargs: Any) -> Any:
        return sync_or_stop(partial(stock_eval_sync, state), env, **kwargs)

    patches.replace(StateTaskServiceEcs, "_eval_sync", eval_sync)
    patches.replace(StateTaskServiceEcs, "_eval_service_task", eval_service_task)
    patches.replace(StateTaskServiceEcs, "_build_sync_resolver", build_sync_resolver)


def has_ended(
    env: Any,
    arn: str,
    on_end: Callable[[str, Callable[[], None]], None],
    stop: Callable[[], None],
) -> bool:
    """Wait for a task or job run. False: its state has ended first.

    What is broken off by a stop or an error is stopped. A timeout counts as an end of the state.
    """
    changed = Event()
    on_end(arn, changed.set)
    env.program_state_event.on_set(changed.set)
    changed.wait()
    if not env.is_running() and not isinstance(env.program_state(), ProgramEnded):
        stop()
    return bool(env.is_running())


def fail_with(state: Any, env: Any, description: Mapping[str, Any]) -> None:
    """Fail the state with what a task or job run ended as."""
    name = StatesErrorName(StatesErrorNameType.StatesTaskFailed)
    fail(state, env, name, json.dumps(description))


def sync_or_stop(
    stock: Callable[..., Any],
    env: Any,
    sync_resolver: Callable[[], Any],
    callback_endpoint: Any,
    **kwargs: Any,
) -> Any:
    """Evaluate a `.sync` by `stock`, and call the resolver in any case.

    The resolver waits for the task or job run that was started, or stops it. When the execution is
    stopped during the start, stock moto evaluates nothing more, and would leave it running.
    """
    is_asked = Event()

    def resolve() -> Any:
        is_asked.set()
        return sync_resolver()

    endpoint = callback_endpoint if env.is_running() else None
    outcome = stock(env=env, sync_resolver=resolve, callback_endpoint=endpoint, **kwargs)
    if not is_asked.is_set() and not env.is_running():
        sync_resolver()
    return outcome


def _ecs_client(region: str, state_credentials: Any = None) -> Any:
    # Looked up at each call, because `clients` replaces it.
    make: Any = vars(stock_module)["boto_client_for"]
    return make(region=region, service="ecs", state_credentials=state_credentials)


def _succeeded(task: dict[str, Any]) -> bool:
    return task.get("StopCode") != "TaskFailedToStart" and all(
        container.get("ExitCode") == 0 for container in task.get("Containers", [])
    )


def jsonable(value: Any) -> Any:
    """A description as Step Functions writes it: times in epoch milliseconds."""
    if isinstance(value, dict):
        return {key: jsonable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [jsonable(inner) for inner in value]
    return int(value.timestamp() * 1000) if isinstance(value, datetime) else value


def code_and_message(error: ClientError, default_code: str) -> tuple[str, str]:
    """What an error of a service says; a code may be missing."""
    said = error.response.get("Error", {})
    return said.get("Code", default_code), said.get("Message", "")


def _run_task_errors(region: str) -> list[Any]:
    client = _ecs_client(region)
    return list(client.meta.service_model.operation_model("RunTask").error_shapes)


def fail(state: Any, env: Any, error_name: Any, cause: str) -> None:
    details: Any = TaskFailedEventDetails(
        error=error_name.error_name,
        cause=cause,
        resource=state._get_sfn_resource(),
        resourceType=state._get_sfn_resource_type(),
    )
    raise FailureEventException(
        FailureEvent(
            env=env,
            error_name=error_name,
            event_type=HistoryEventType.TaskFailed,
            event_details=EventDetails(taskFailedEventDetails=details),  # type: ignore[typeddict-item] # moto sets one key of many
        )
    )


SERVICE = "emr-serverless"
# startJobRun's parameters. The service's other five actions are not supported.
PARAMETERS = {
    "ApplicationId",
    "ClientToken",
    "ConfigurationOverrides",
    "ExecutionRoleArn",
    "ExecutionTimeoutMinutes",
    "JobDriver",
    "Name",
    "Tags",
}


def emr_sync(
    patches: Patches,
    client_for: Callable[[str, str], Any],
    on_end: Callable[[str, Callable[[], None]], None],
) -> None:
    """`emr-serverless:startJobRun.sync` starts a job run, and succeeds or fails with it.

    AWS: the state succeeds, with the job run's description, when the job run ends in SUCCESS.
    Otherwise it fails with `States.TaskFailed` and the description as JSON in the cause. The job
    run is cancelled when the execution is stopped or a sibling branch of a Parallel state fails.

    Stock moto: its interpreter does not support the service "emr-serverless".

    AWS does not document whether the state's TimeoutSeconds cancels the job run. Here it does not,
    as in `ecs_sync`.

    Add the service to the interpreter.

    Args:
        patches: takes the replaced attributes.
        client_for: returns a client of EMR Serverless, by the region and the state machine's role.
        on_end: takes a job run's ARN and a callback for its end, which comes at once if the job run
            has ended already.
    """
    stock = state_task_service_factory.state_task_service_for

    def state_task_service_for(service_name: str) -> Any:
        return (
            _JobRunService(client_for, on_end) if service_name == SERVICE else stock(service_name)
        )

    for module in (state_task_service_factory, state_task_factory):
        if hasattr(module, "state_task_service_for"):
            patches.replace(module, "state_task_service_for", state_task_service_for)


class _JobRunService(state_task_service_callback.StateTaskServiceCallback):
    def __init__(
        self,
        client_for: Callable[[str, str], Any],
        on_end: Callable[[str, Callable[[], None]], None],
    ) -> None:
        # AWS has no task tokens here. But without that pattern stock moto makes no callback
        # endpoint, and uses one all the same.
        patterns: Any = {ResourceCondition.Sync, ResourceCondition.WaitForTaskToken}
        super().__init__(supported_integration_patterns=patterns)
        self._client_for = client_for
        self._on_end = on_end

    def _get_supported_parameters(self) -> set[str] | None:
        return PARAMETERS if self.resource.api_action == "startJobRun" else None

    def _eval_service_task(
        self,
        env: Any,
        resource_runtime_part: Any,
        normalised_parameters: dict[str, Any],
        state_credentials: Any,
    ) -> None:
        client = self._client_for(resource_runtime_part.region, state_credentials.role_arn)
        try:
            started = client.start_job_run(**normalised_parameters)
        except ClientError as error:
            code, message = code_and_message(error, "EMRServerlessException")
            fail(self, env, CustomErrorName(f"EMRServerless.{code}"), message)
            return
        started.pop("ResponseMetadata", None)
        self._normalise_response(response=started)
        env.stack.append(started)

    def _build_sync_resolver(
        self,
        env: Any,
        resource_runtime_part: Any,
        normalised_parameters: dict[str, Any],
        state_credentials: Any,
    ) -> Callable[[], Any]:
        del normalised_parameters
        started = env.stack.pop()
        client = self._client_for(resource_runtime_part.region, state_credentials.role_arn)
        ids = {"applicationId": started["ApplicationId"], "jobRunId": started["JobRunId"]}

        def cancel() -> None:
            with suppress(ClientError):  # it has just ended
                client.cancel_job_run(**ids)

        def resolve() -> Any:
            if not has_ended(env, started["Arn"], self._on_end, cancel):
                return None
            description = client.get_job_run(**ids)
            self._normalise_response(response=description, service_action_name="getJobRun")
            run = jsonable(description["JobRun"])
            if run["State"] != "SUCCESS":
                fail_with(self, env, run)
            return run

        return resolve

    def _eval_sync(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override] # stock passes keywords
        return sync_or_stop(super()._eval_sync, env, **kwargs)
