"""Parameters of a task state reach the service under the service's own names.

AWS: translates `TaskDefinition`, `Overrides.ContainerOverrides`, … of an optimized integration to
the API's `taskDefinition`, `overrides.containerOverrides`, … Responses come back in Step Functions'
spelling.

Stock moto: translates nothing, because both hooks are empty, so `ecs:runTask` fails on its
parameter names. The translation used here is moto's own, which moto never calls. It also drops
`CapacityProviderStrategy` and `Tags`, which its list of parameters of `ecs:runTask` lacks.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from functools import lru_cache
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.model import OperationModel, ServiceModel
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service,
    state_task_service_ecs,
)

from longhaul.local.moto_repairs.patching import Patches

StateTaskService = state_task_service.StateTaskService
StateTaskServiceEcs = state_task_service_ecs.StateTaskServiceEcs


def apply(patches: Patches) -> None:
    def normalise_parameters(state: Any, parameters: Any, **of: str | None) -> None:
        shape = _operation_of(state, **of).input_shape
        if shape is not None:
            state._to_boto_request(parameters, shape)

    def normalise_response(state: Any, response: Any, **of: str | None) -> None:
        shape = _operation_of(state, **of).output_shape
        if shape is not None:
            state._from_boto_response(response, shape)

    stock_supported = StateTaskServiceEcs._get_supported_parameters

    def supported_parameters(state: Any) -> set[str] | None:
        stock: set[str] | None = stock_supported(state)
        return None if stock is None else stock | {"CapacityProviderStrategy", "Tags"}

    patches.replace(StateTaskService, "_normalise_parameters", normalise_parameters)
    patches.replace(StateTaskService, "_normalise_response", normalise_response)
    patches.replace(StateTaskServiceEcs, "_get_supported_parameters", supported_parameters)


def _operation_of(
    state: Any, boto_service_name: str | None = None, service_action_name: str | None = None
) -> OperationModel:
    return _operation(
        state._get_boto_service_name(boto_service_name),
        state._get_boto_service_action(service_action_name),
    )


@lru_cache
def _operation(service: str, action: str) -> OperationModel:
    """Botocore's model of an operation, whose name is in snake case.

    Raises:
        KeyError: the service has no such operation.
    """
    model = _service(service)
    return model.operation_model({xform_name(name): name for name in model.operation_names}[action])


@lru_cache
def _service(name: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(name)
