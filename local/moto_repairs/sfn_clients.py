"""The interpreter's AWS clients are made once.

AWS: a task state calls its service.

Stock moto: each evaluation of a task state makes a new boto3 client (tens of milliseconds of CPU), always to `localhost` on the port of an environment
variable. Here there is one client per service, with connections enough for many executions, to the endpoint that was really opened.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from functools import lru_cache
from typing import Any

from botocore.config import Config
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_ecs

from local.credentials import aws_client
from local.moto_repairs.patching import Patches


def apply(patches: Patches, endpoint: str) -> None:
    # A Lambda call takes as long as the function may run; no retry, because the state's own Retry is the one that counts.
    config = Config(
        parameter_validation=False,
        retries={"total_max_attempts": 1},
        connect_timeout=10,
        read_timeout=1000,
        max_pool_connections=256,
    )

    @lru_cache
    def client(service: str, region: str) -> Any:
        return aws_client(service, endpoint=endpoint, region=region, config=config)

    def boto_client_for(region: str, service: str, state_credentials: Any = None) -> Any:
        del state_credentials
        return client(service, region)

    for module in (lambda_eval_utils, state_task_service_ecs):
        patches.replace(module, "boto_client_for", boto_client_for)
