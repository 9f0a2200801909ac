"""The interpreter makes one client per service.

AWS: a task state calls its service.

Stock moto: each evaluation of a task state makes a new boto3 client (tens of milliseconds of CPU),
always to `localhost` on the port of an environment variable. Here there is one client per service
and role of a state machine, to the real endpoint, with enough connections for many executions.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from botocore.config import Config
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_ecs,
)

from longhaul.local.credentials import ADMINISTRATOR, Credentials, aws_client
from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches, endpoint: str, lend: Callable[[str], Credentials]) -> None:
    """Repair the clients.

    Args:
        patches: takes the replaced attributes.
        endpoint: of the embedded AWS.
        lend: returns credentials of a role, by its ARN.
    """
    # The read timeout exceeds Lambda's longest run. The client does not retry: the state has a
    # Retry of its own.
    config = Config(
        parameter_validation=False,
        retries={"total_max_attempts": 1},
        connect_timeout=10,
        read_timeout=1000,
        max_pool_connections=256,
    )

    @lru_cache
    def client(service: str, region: str, role: str | None) -> Any:
        lent = lend(role) if role else ADMINISTRATOR
        return aws_client(
            service, endpoint=endpoint, region=region, credentials=lent, config=config
        )

    def boto_client_for(region: str, service: str, state_credentials: Any = None) -> Any:
        role = state_credentials.role_arn if state_credentials else None
        return client(service, region, role)

    for module in (lambda_eval_utils, state_task_service_ecs):
        patches.replace(module, "boto_client_for", boto_client_for)
