"""What the optimized integrations have in common: spelling, errors of calls, best effort."""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError

from simulation.aws.service import Call
from simulation.aws.stepfunctions.integration import Failed


def spelled(value: Any, case: Callable[[str], str]) -> Any:
    """The value with the first letter of its members' names in that case.

    Times become epoch milliseconds.
    """
    match value:
        case dict():
            return {case(name[0]) + name[1:]: spelled(inner, case) for name, inner in value.items()}
        case list():
            return [spelled(inner, case) for inner in value]
        case datetime():
            return int(value.timestamp() * 1000)
        case _:
            return value


def failure_of(
    error: BaseException, call: Call, *, prefix: str, unmodelled: str, java_name: str
) -> Failed:
    """The failure of a state whose call failed.

    Args:
        error: what the call raised; others than boto3's are raised again.
        call: the call, whose model lists the errors that keep their names.
        prefix: how the names of the integration's errors begin.
        unmodelled: the name of all other errors, such as a throttle.
        java_name: what the SDK of Step Functions calls the service.
    """
    if isinstance(error, BotoCoreError):  # no response
        return Failed(f"{prefix}.SdkClientException", str(error))
    if not isinstance(error, ClientError):
        raise error
    code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    name = code if code in _errors_of(call.service, call.operation) else unmodelled
    return Failed(
        f"{prefix}.{name}",
        f"{message} (Service: {java_name}; Status Code: {status}; Error Code: {code};"
        " Request ID: 00000000-0000-0000-0000-000000000000; Proxy: null)",
    )


def best_effort(error: BaseException | None, _answer: Any) -> None:
    """The end of a call whose failure changes nothing."""
    if error is not None and not isinstance(error, ClientError | BotoCoreError):
        raise error


@cache
def _errors_of(service: str, operation: str) -> frozenset[str]:
    model = botocore.session.get_session().get_service_model(service).operation_model(operation)
    return frozenset(shape.name for shape in model.error_shapes)
