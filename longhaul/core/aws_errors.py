"""What an error of AWS says, and how often a call is tried again."""

from collections.abc import Callable, Iterator

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from longhaul.core.errors import LonghaulError, PermanentError
from longhaul.core.settings import UnknownStageError

_REFUSED = (
    "ValidationException",
    "InvalidParameterValue",
    "InvalidParameterException",
    "InvalidMessageContents",
    "InvalidAttributeValue",
    "BatchRequestTooLong",
    "MessageTooLong",
    "InvalidArgument",
    "InvalidName",
    "InvalidExecutionInput",
    "EntityTooLarge",
    "KeyTooLongError",
    "NoSuchKey",
)
"""Ends of the codes that say what is wrong with the call itself.

All others may be AWS's, or the deployment's: throttles, outages, permissions, missing resources.
"""
_RATE = "Rate exceeded"  # a throttle, whatever its code says


def code_of(error: ClientError) -> str:
    """The service's code of the error, such as `ConditionalCheckFailedException`."""
    return str(error.response["Error"]["Code"])


def message_of(error: ClientError) -> str:
    """What the service says about the error; empty when it says nothing."""
    return str(error.response["Error"].get("Message", ""))


def is_throttle(error: ClientError) -> bool:
    """Whether the service asks for fewer calls, as with `Throttling`."""
    return "hrottl" in code_of(error)


def is_denied(error: ClientError) -> bool:
    """Whether a policy denies the call; S3 quotes the code of KMS, `KMS.AccessDeniedException`."""
    return "AccessDenied" in code_of(error)


def is_refused(error: ClientError) -> bool:
    """Whether the service will never take this very call."""
    return is_refusal(code_of(error)) and _RATE not in message_of(error)


def is_refusal(code: str) -> bool:
    """Whether a code says that the call itself is wrong."""
    return code.endswith(_REFUSED)


def is_raised_again(error: Exception) -> bool:
    """Whether the same work would raise this error again, through no fault of AWS's side.

    False in doubt: an outage must not cost a job.
    """
    if isinstance(error, ClientError):
        return is_refused(error)
    if isinstance(error, BotoCoreError):  # connections, timeouts, credentials
        return isinstance(error, ParamValidationError)
    if isinstance(error, LonghaulError):  # a row that changed, a row of another version, …
        return isinstance(error, PermanentError)
    # An unknown stage waits for a deploy. OSError: the network.
    return not isinstance(error, OSError | MemoryError | UnknownStageError)


def retrying(
    tries: int, sleep: Callable[[float], None], wait_s: Callable[[int], float]
) -> Iterator[bool]:
    """One round for each try; yields whether it is the last one.

    Between the rounds it sleeps `wait_s(n)` seconds, where `n` counts the tries so far.
    """
    for n in range(1, tries + 1):
        yield n == tries
        if n < tries:
            sleep(wait_s(n))
