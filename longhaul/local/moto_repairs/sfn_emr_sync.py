"""`emr-serverless:startJobRun.sync` starts a job run, and succeeds or fails with it.

AWS: the state succeeds, with the job run's description, when the job run ends in SUCCESS. Otherwise
it fails with `States.TaskFailed` and the description as JSON in the cause. The job run is cancelled
when the execution is stopped or a sibling branch of a Parallel state fails.

Stock moto: its interpreter does not support the service "emr-serverless".

AWS does not document whether the state's TimeoutSeconds cancels the job run. Here it does not, as
in `sfn_ecs_sync`.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

import json
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import Any

from botocore.exceptions import ClientError
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import (
    CustomErrorName,
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

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.moto_repairs.sfn_ecs_sync import (
    code_and_message,
    fail,
    jsonable,
    sync_or_stop,
    was_broken_off,
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


def apply(
    patches: Patches,
    client_for: Callable[[str, str], Any],
    on_end: Callable[[str, Callable[[], None]], None],
) -> None:
    """Add the service to the interpreter.

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

        def resolve() -> Any:
            changed = Event()
            self._on_end(started["Arn"], changed.set)
            env.program_state_event.on_set(changed.set)
            changed.wait()
            if not env.is_running():
                if was_broken_off(env):
                    with suppress(ClientError):  # it has just ended
                        client.cancel_job_run(**ids)
                return None
            description = client.get_job_run(**ids)
            self._normalise_response(response=description, service_action_name="getJobRun")
            run = jsonable(description["JobRun"])
            if run["State"] != "SUCCESS":
                fail(
                    self,
                    env,
                    StatesErrorName(StatesErrorNameType.StatesTaskFailed),
                    json.dumps(run),
                )
            return run

        return resolve

    def _eval_sync(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override] # stock passes keywords
        return sync_or_stop(super()._eval_sync, env, **kwargs)
