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
    "secretsmanager": ("ThrottlingException", 400),
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
    "secretsmanager": "InternalServiceError",
    "sns": "InternalFailure",
    "sqs": "InternalFailure",
    "stepfunctions": "ServiceUnavailable",
}
_DENIED = {
    "dynamodb": ("AccessDeniedException", 400),
    "ecs": ("AccessDeniedException", 400),
    "emr-serverless": ("AccessDeniedException", 403),
    "events": ("AccessDeniedException", 400),
    "glue": ("AccessDeniedException", 400),
    "s3": ("AccessDenied", 403),
    "secretsmanager": ("AccessDeniedException", 400),
    "sns": ("AuthorizationError", 403),
    "sqs": ("AccessDenied", 403),
    "stepfunctions": ("AccessDeniedException", 400),
}
_PREFIXES = {"stepfunctions": "states"}


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


def denied(call: Call) -> ClientError:
    """A policy denies the call, which has no effect."""
    code, status = _DENIED[call.service]
    action = f"{_PREFIXES.get(call.service, call.service)}:{call.operation}"
    return client_error(
        code,
        f"User: longhaul is not authorized to perform: {action} with an explicit deny in a service"
        " control policy",
        call.operation,
        status=status,
    )


def undecipherable(call: Call) -> ClientError:
    """Glue may not use the key of its catalog for this role.

    Source: GlueEncryptionException, "Security in AWS Glue" (AWS Glue Developer Guide).
    """
    return client_error(
        "GlueEncryptionException",
        "User: longhaul is not authorized to perform: kms:Decrypt on the resource associated with"
        " this ciphertext (Service: AWSKMS; Status Code: 400; Error Code: AccessDeniedException)",
        call.operation,
    )
