"""A job in a Lambda function, size `tiny`: its name, its limit, what its end says. Pure.

An invocation cannot be stopped, nor asked whether it runs. So its name says until when it may run:
Lambda ends it then. One that ends by itself says its name.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from longhaul.core.engine import Engine
from longhaul.core.lease import Lease
from longhaul.core.verdict import (
    OutcomeClass,
    Verdict,
    by_exit_code,
    says_out_of_memory,
    searchable,
)

MIB_PER_VCPU: Final = 1769
"""Source: "Configure Lambda function memory" (Lambda Developer Guide)."""

MAX_RUN_S: Final = 900
"""Lambda's limit for one invocation."""

CLOCK_RIGHT_WITHIN: Final = timedelta(minutes=2)
"""How wrong the clock may be that names an invocation's end (docs/internals/reliability.md)."""

ENDED: Final = "JobEnded"
"""The error that the function raises when its job ended with another exit code than 0."""

# All others refuse the invocation, and their list grows. Or their answer was lost, and the row says
# whether the job has registered. Sources: "Handle Lambda service exceptions" (Step Functions
# Developer Guide), the errors of Invoke (Lambda API Reference).
_AFTER_A_START = (
    "Lambda.Unknown",  # the function ended without an error of its own
    "Lambda.ClientExecutionTimeoutException",  # Step Functions no longer waits for its end
    "Lambda.EFSIOException",  # it could not read or write
)
# Before the name of the invocation that has ended, at the end of the function's message.
_ENDED_IS = "; ended: "
_INVOCATIONS = "/invocations/"
_NAME = re.compile(r"/invocations/([^/]+)/until/(\d{1,14})")
_EXIT_CODE = re.compile(r"exit code (\d{1,3})")
_KILLED = "signal: killed"
_OUT_OF_MEMORY = 137


def reference(function_arn: str, request_id: str, until: datetime) -> str:
    """The value in the row's `task_arn`, where a Fargate task has its ARN.

    `until`: when Lambda ends the invocation, by the clock of its host.
    """
    return f"{function_arn}{_INVOCATIONS}{request_id}/until/{round(until.timestamp() * 1000)}"


def ends_by(task_ref: str) -> datetime:
    """When the invocation of that name has ended at the latest, in AWS's time."""
    return datetime.fromtimestamp(_parts(task_ref)[1] / 1000, UTC) + CLOCK_RIGHT_WITHIN


def request_id(task_ref: str) -> str:
    """Lambda's id of the invocation of that name, which is also in its log."""
    return _parts(task_ref)[0]


def ended(words: str, task_ref: str) -> str:
    """The message of the error with which the invocation of that name ends."""
    return f"{words}{_ENDED_IS}{task_ref}"


def is_over(task_ref: str, error: dict[str, Any]) -> bool:
    """Whether it is the invocation of that name that says it ended: nothing of it runs any more.

    Lambda may run one event twice, and Step Functions hears of one end. The other run goes on.
    """
    message = str(error.get("errorMessage") or "")
    return error.get("errorType") == ENDED and message.endswith(f"{_ENDED_IS}{task_ref}")


def _parts(task_ref: str) -> tuple[str, int]:
    """Its id and its end; that of none has passed. A job's code may have written anything there."""
    match = _NAME.search(task_ref)
    return (match[1], int(match[2])) if match else ("", 0)


def classify(_: Lease, error: dict[str, Any]) -> Verdict:
    """How an invocation ended: its runner's exit code, or what Lambda says.

    The job's own timeout is shorter than Lambda's: an invocation that was cut off had no runner
    that could end it.
    """
    message = searchable(str(error.get("errorMessage") or "").partition(_ENDED_IS)[0])
    said = f"{error.get('errorType')}: {message}"
    code = _EXIT_CODE.search(message) if error.get("errorType") == ENDED else None
    if code is None:
        is_full = _KILLED in message or says_out_of_memory(said)
        return Verdict(OutcomeClass.OUT_OF_MEMORY if is_full else OutcomeClass.INTERRUPTED, said)
    if int(code[1]) == _OUT_OF_MEMORY:
        return Verdict(OutcomeClass.OUT_OF_MEMORY, said)
    return Verdict(by_exit_code(int(code[1])), said)


LAMBDA = Engine(
    name="lambda",
    task_mark=_INVOCATIONS,
    described_by="errorType",
    errors=("Lambda.",),
    after_a_start=_AFTER_A_START,
    queues=False,
    log_prefix=None,
    classify=classify,
    is_over=is_over,
)
