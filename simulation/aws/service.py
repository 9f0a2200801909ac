"""What the fakes share: the gate for every call, botocore's errors, and its paginators.

A fake has those methods of a botocore client that the product calls, with the same keyword
arguments, responses and errors. Any other argument is a TypeError, so that none is ignored.

The last functions are errors that any service may return at any time, as botocore raises them.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from itertools import count
from threading import RLock
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, TypeVar

from botocore.exceptions import ClientError, ReadTimeoutError

from simulation.aws.clock import START

K = TypeVar("K")
V = TypeVar("V")
Answer = dict[str, Any]
Pages = Mapping[str, tuple[tuple[str, str], ...]]
"""By operation: each argument of the next page's request, and the member of the answer it takes."""

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

ACCOUNT, REGION = "123456789012", "us-east-1"


class Call(NamedTuple):
    service: str  # boto3's name of the client
    operation: str  # the API's name, such as `PutItem`
    arguments: Mapping[str, Any]


Proceed = Callable[[], Answer]
Around = Callable[[Call, Proceed], Answer]
"""Wraps a call.

It may raise before `proceed()` (the call has no effect) or after it (the answer is lost), or call
it twice (the SDK retries).
"""


class Gate:
    """All calls of a world go through it: counted, one at a time, wrapped by `around`."""

    def __init__(self, around: Around | None = None) -> None:
        self.around = around
        self.counts: Counter[str] = Counter()  # by `service.Operation`
        self.calls: deque[Call] = deque(maxlen=1000)  # the latest
        # The handlers call from several threads; each call is atomic, as it is on AWS.
        self._lock = RLock()

    def __call__(self, call: Call, proceed: Proceed) -> Answer:
        with self._lock:
            self.calls.append(call)
            self.counts[f"{call.service}.{call.operation}"] += 1
            return proceed() if self.around is None else self.around(call, proceed)


class RefusedError(Exception):
    """The service refuses a call; `operation` turns this into botocore's ClientError."""

    def __init__(self, code: str, message: str = "", *, status: int = 400, **extra: Any) -> None:
        super().__init__(code, message)
        self.code, self.message, self.status, self.extra = code, message, status, extra


def known(found: Mapping[K, V], key: K, code: str, message: str, status: int = 400) -> V:
    """What has that key.

    Raises:
        RefusedError: nothing has.
    """
    if key not in found:
        raise RefusedError(code, message, status=status)
    return found[key]


def client_error(
    code: str, message: str, operation: str, *, status: int = 400, **extra: Any
) -> ClientError:
    """The error that botocore raises; `extra` are further members, such as CancellationReasons."""
    response: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
        **extra,
    }
    return ClientError(response, operation)


@dataclass(eq=False, repr=False)
class Service:
    """Base of the fakes."""

    service: ClassVar[str]
    paginators: ClassVar[Pages] = {}
    page_limit: ClassVar[str] = "Limit"  # the argument that a paginator's page size becomes
    # The classes of its errors by their codes, as botocore's clients have; for whom those count.
    exceptions: ClassVar[SimpleNamespace] = SimpleNamespace()

    gate: Gate
    _now: Callable[[], datetime] = field(default=lambda: START)
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def get_paginator(self, operation_name: str) -> "Paginator":
        tokens = self.paginators[operation_name]
        return Paginator(getattr(self, operation_name), tokens, self.page_limit)


def page_of(name: str, found: Sequence[Any], token: str | None, size: int) -> Answer:
    """A page of what was found, as the member `name`, and the token of the next one, if any."""
    start = int(token or 0)
    answer: Answer = {name: found[start : start + size]}
    if start + size < len(found):
        answer["nextToken"] = str(start + size)
    return answer


class Paginator:
    def __init__(
        self, call: Callable[..., Answer], tokens: tuple[tuple[str, str], ...], limit: str
    ) -> None:
        self._call = call
        self._tokens = tokens
        self._limit = limit

    def paginate(
        self, *, PaginationConfig: Mapping[str, int] | None = None, **arguments: Any
    ) -> Iterator[Answer]:
        if PaginationConfig is not None:
            arguments[self._limit] = PaginationConfig["PageSize"]
        while True:
            page = self._call(**arguments)
            yield page
            following = {
                argument: page[member] for argument, member in self._tokens if page.get(member)
            }
            if not following:
                return
            arguments |= following


def operation(effect: Callable[..., Answer]) -> Callable[..., Answer]:
    """A method of a client: it goes through the gate, and a refusal becomes botocore's error."""
    name = "".join(word.capitalize() for word in effect.__name__.split("_"))

    @wraps(effect)
    def call(self: Service, **arguments: Any) -> Answer:
        def proceed() -> Answer:
            try:
                return effect(self, **arguments)
            except RefusedError as refused:
                error = client_error(
                    refused.code, refused.message, name, status=refused.status, **refused.extra
                )
                kind = getattr(self.exceptions, refused.code, ClientError)
                raise kind(error.response, name) from None

        return self.gate(Call(self.service, name, arguments), proceed)

    return call


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
