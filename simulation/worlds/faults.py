"""The faults of a call, as strings in a plan: `what/when/times`.

The fault fires `before` or `after` the call takes effect. With `1` the SDK's next try succeeds;
with `all` every try fails. A `lost/after` answer makes the SDK repeat a call that took effect.
`crash` ends the process, `hang` keeps the call until its function's timeout, and `slow/30` makes
the call take 30 seconds.
"""

from functools import cache

from botocore.exceptions import ClientError, ReadTimeoutError

from simulation.aws import errors
from simulation.aws.service import Call, client_error

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


def error_of(what: str, call: Call) -> ClientError | ReadTimeoutError:
    match what:
        case "throttle":
            return errors.throttle(call)
        case "unavailable":
            return errors.unavailable(call)
        case "lost":
            return errors.lost_answer(call)
        case "conflict":
            return _conflict(call)
        case "denied":
            return errors.denied(call)
        case "encrypted":
            return errors.undecipherable(call)
        case "disguised":
            return client_error("InvalidParameterException", "Rate exceeded", call.operation)
    raise ValueError(f"no such fault of a call: {what}")


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
