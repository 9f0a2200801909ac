"""`emr-serverless:startJobRun.sync` starts a job run, and stands and falls with it.

AWS: the state succeeds when the job run ends in SUCCESS, with its description; otherwise it fails with `States.TaskFailed` and the description as JSON in the
cause. When the execution is stopped, or a sibling branch of a Parallel state fails, the job run is cancelled.

Stock moto: "emr-serverless" is a service that its interpreter does not support.

Whether a state's own TimeoutSeconds cancels the job run is not documented. Here it does not, as in `sfn_ecs_sync`.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

import json
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import Any

from botocore.exceptions import ClientError
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import CustomErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import StatesErrorNameType
from moto.stepfunctions.parser.asl.component.state.exec.state_task import state_task_factory
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_factory
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import ResourceCondition
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_callback import (
    StateTaskServiceCallback,
)

from local.moto_repairs.patching import Patches
from local.moto_repairs.sfn_ecs_sync import fail, jsonable, sync_or_stop, was_broken_off

SERVICE = "emr-serverless"
# Of startJobRun. The service has five more actions, which nothing here uses.
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
    client_for: Callable[[str], Any],
    on_end: Callable[[str, Callable[[], None]], None],
) -> None:
    """Teach the interpreter the service.

    Args:
        patches: how to get in and out.
        client_for: a region's client of EMR Serverless.
        on_end: called with a job run's ARN and a callback for when it has ended (at once if it has).
    """
    stock = state_task_service_factory.state_task_service_for

    def state_task_service_for(service_name: str) -> Any:
        return _JobRunService(client_for, on_end) if service_name == SERVICE else stock(service_name)

    for module in (state_task_service_factory, state_task_factory):
        if hasattr(module, "state_task_service_for"):
            patches.replace(module, "state_task_service_for", state_task_service_for)


class _JobRunService(StateTaskServiceCallback):
    def __init__(self, client_for: Callable[[str], Any], on_end: Callable[[str, Callable[[], None]], None]) -> None:
        # AWS has no tokens here; but without, stock has no endpoint for the end of a state, and asks it nevertheless.
        patterns: Any = {ResourceCondition.Sync, ResourceCondition.WaitForTaskToken}
        super().__init__(supported_integration_patterns=patterns)
        self._client_for = client_for
        self._on_end = on_end

    def _get_supported_parameters(self) -> set[str] | None:
        return PARAMETERS if self.resource.api_action == "startJobRun" else None

    def _eval_service_task(
        self, env: Any, resource_runtime_part: Any, normalised_parameters: dict[str, Any], state_credentials: Any
    ) -> None:
        del state_credentials
        try:
            answer = self._client_for(resource_runtime_part.region).start_job_run(**normalised_parameters)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "EMRServerlessException")
            fail(
                self, env, CustomErrorName(f"EMRServerless.{code}"), error.response.get("Error", {}).get("Message", "")
            )
            return
        answer.pop("ResponseMetadata", None)
        self._normalise_response(response=answer)
        env.stack.append(answer)

    def _build_sync_resolver(
        self, env: Any, resource_runtime_part: Any, normalised_parameters: dict[str, Any], state_credentials: Any
    ) -> Callable[[], Any]:
        del normalised_parameters, state_credentials
        started = env.stack.pop()
        client = self._client_for(resource_runtime_part.region)
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
                fail(self, env, StatesErrorName(StatesErrorNameType.StatesTaskFailed), json.dumps(run))
            return run

        return resolve

    def _eval_sync(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override] # by name, as stock calls it
        return sync_or_stop(super()._eval_sync, env, **kwargs)
