"""Errors that any service may return at any time, as botocore raises them."""

from botocore.exceptions import ClientError, ReadTimeoutError

from simulation.aws.service import Call, client_error

_THROTTLE = {
    "dynamodb": ("ThrottlingException", 400),
    "ecs": ("ThrottlingException", 400),
    "emr-serverless": ("ThrottlingException", 429),
    "events": ("ThrottlingException", 400),
    "glue": ("ThrottlingException", 400),
    "s3": ("SlowDown", 503),
    "sns": ("Throttled", 429),
    "sqs": ("RequestThrottled", 403),
    "stepfunctions": ("ThrottlingException", 400),
}
_UNAVAILABLE = {
    "dynamodb": "InternalServerError",
    "ecs": "ServerException",
    "emr-serverless": "InternalServerException",
    "events": "InternalException",
    "glue": "InternalServiceException",
    "s3": "InternalError",
    "sns": "InternalFailure",
    "sqs": "InternalFailure",
    "stepfunctions": "ServiceUnavailable",
}


def throttle(call: Call) -> ClientError:
    """The service throttles the call, which has no effect."""
    code, status = _THROTTLE[call.service]
    return client_error(code, "Rate exceeded", call.operation, status=status)


def unavailable(call: Call) -> ClientError:
    """A 5xx: the call may have taken effect."""
    return client_error(
        _UNAVAILABLE[call.service], "We encountered an internal error.", call.operation, status=500
    )


def lost_answer(call: Call) -> ReadTimeoutError:
    """The connection broke before the response: the call may have taken effect."""
    return ReadTimeoutError(endpoint_url=f"https://{call.service}.us-east-1.amazonaws.com/")
