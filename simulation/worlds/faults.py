"""The faults of a call, as strings in a plan: `what/when/times`.

The fault fires `before` or `after` the call takes effect. With `1` the SDK's next try succeeds;
with `all` every try fails. A `lost/after` answer makes the SDK repeat a call that took effect.
`crash` ends the process, `hang` keeps the call until its function's timeout, and `slow/30` makes
the call take 30 seconds.
"""

from collections.abc import Callable, Mapping
from functools import cache

from botocore.exceptions import ClientError, ReadTimeoutError

from simulation.aws.service import (
    Call,
    client_error,
    denied,
    lost_answer,
    throttle,
    unavailable,
    undecipherable,
)

_ANY: tuple[str, ...] = (
    "throttle/before/1",
    "throttle/before/all",
    "unavailable/before/1",
    "unavailable/before/all",
    "unavailable/after/1",
    "unavailable/after/all",
    "lost/before/all",
    "lost/after/1",
    "lost/after/all",
)
_ENDS = ("crash/before", "crash/after")
_HANGS = ("hang/before", "hang/after", "slow/6", "slow/40")
_CONDITIONAL_PUT = ("conflict/before/1",)
_DYNAMODB_WRITE = ("conflict/before/1",)
_WRITES = {"PutItem", "UpdateItem", "TransactWriteItems"}
_DISGUISED = ("disguised/before/all",)

ALL_KINDS = (*_ANY, *_ENDS, *_HANGS, *_DYNAMODB_WRITE, *_DISGUISED)

DENIALS = ("denied", "encrypted")
"""How a policy of the account's denies a call, or one of the key of the Glue catalog."""


@cache
def _menu(service: str, operation: str, traits: frozenset[str]) -> tuple[str, ...]:
    kinds = _ANY
    if "platform" not in traits:
        kinds += _ENDS
    if "function" in traits:
        kinds += _HANGS
    if service == "dynamodb" and operation in _WRITES:
        kinds += _DYNAMODB_WRITE
    if "conditional" in traits:
        kinds += _CONDITIONAL_PUT
    if operation == "RunTask":
        kinds += _DISGUISED
    return kinds


def kinds_of(call: Call, traits: frozenset[str]) -> tuple[str, ...]:
    """The possible faults of a call by a host with these traits.

    A `function` can hang until its timeout. The `platform`, a service of AWS, neither crashes nor
    hangs.
    """
    if call.operation == "PutObject" and not call.arguments.keys().isdisjoint(
        ("IfMatch", "IfNoneMatch")
    ):
        traits |= {"conditional"}
    return _menu(call.service, call.operation, traits)


def is_retried(what: str) -> bool:
    """Whether the SDK's standard mode retries it."""
    return what in ("throttle", "unavailable", "lost")


def _conflict(call: Call) -> ClientError:
    if call.operation == "PutObject":
        return client_error(
            "ConditionalRequestConflict",
            "A conflicting operation occurred.",
            call.operation,
            status=409,
        )
    if call.operation == "TransactWriteItems":
        reasons = [
            {"Code": "None"},
            {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"},
        ]
        return client_error(
            "TransactionCanceledException",
            "Transaction cancelled, please refer cancellation reasons for specific reasons"
            " [None, TransactionConflict]",
            call.operation,
            CancellationReasons=reasons,
        )
    return client_error(
        "TransactionConflictException", "Transaction is ongoing for the item", call.operation
    )


def _disguised(call: Call) -> ClientError:
    return client_error("InvalidParameterException", "Rate exceeded", call.operation)


_ERRORS: Mapping[str, Callable[[Call], ClientError | ReadTimeoutError]] = {
    "throttle": throttle,
    "unavailable": unavailable,
    "lost": lost_answer,
    "conflict": _conflict,
    "denied": denied,
    "encrypted": undecipherable,
    "disguised": _disguised,
}


def error_of(what: str, call: Call) -> ClientError | ReadTimeoutError:
    return _ERRORS[what](call)
