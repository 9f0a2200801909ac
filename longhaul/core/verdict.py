"""What is known of an attempt's end, and the words for how it ended. Pure.

`core.settlement` gets from one to the other.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

_SEARCHED_CHARS = 16_384
MAX_ERROR_CHARS = 800
"""Cut of an error text: the row stays near 1 KiB, and a dead letter's attribute below 8 KiB."""


class OutcomeClass(StrEnum):
    SUCCEEDED = "succeeded"
    NO_OUTPUT = "no_output"
    PERMANENT = "permanent"
    OUT_OF_MEMORY = "out_of_memory"
    OUT_OF_DISK = "out_of_disk"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    STALLED = "stalled"
    INTERRUPTED = "interrupted"
    NOT_PLACED = "not_placed"  # AWS had no room for a task, or could not take the request for one
    REFUSED = "refused"  # nor will it: people must mend a right, a name or a subnet
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class ExitCode(IntEnum):
    """What the runner's exit codes mean.

    Below 64 and above 78 are the shell's and the system's (sysexits.h).
    """

    OK = 0
    FAILED = 1
    PERMANENT = 65  # EX_DATAERR
    SUPERSEDED = 73  # EX_CANTCREAT: another attempt owns the output
    OUT_OF_DISK = 74  # EX_IOERR
    INTERRUPTED = 75  # EX_TEMPFAIL: told to stop, through no fault of its own
    DENIED = 77  # EX_NOPERM: a policy denies what each job needs
    OUT_OF_MEMORY = 137  # what the kernel's OOM killer leaves


# EMR Serverless writes "Worker has been killed as memory usage exceeded configured memory size".
_OUT_OF_MEMORY = re.compile(r"OutOfMemory|out of memory|memory usage exceeded", re.IGNORECASE)
# No room for a task that was accepted, as its end says. Sources: "Amazon ECS stopped tasks error
# messages" (ECS Developer Guide), "Maximum capacity" and "Troubleshooting errors" (EMR Serverless
# User Guide).
_NO_ROOM = re.compile(
    r"Capacity is unavailable|reached the limit on the number of|limit exceeded|Rate exceeded"
    # As ECS writes it: "not authorized to perform: … on resource: …" is no lack of room.
    r"|Throttl|(?-i:RESOURCE:)|LimitExceeded|InsufficientFreeAddresses|MaxCapacityExceeded"
    r"|maximumCapacity|QuotaExceeded|reached the service limit",
    re.IGNORECASE,
)
# Too many calls in a second, of all in the account. Lambda says so for want of room too, with a
# code of its own. Sources: "Throttling for the Amazon ECS API" (ECS Developer Guide), "Request
# throttling" (EC2 Developer Guide), Invoke (Lambda API Reference).
_THROTTLED = re.compile(r"Rate exceeded|Throttl|Request limit exceeded", re.IGNORECASE)
_TOO_MANY_AT_ONCE = "TooManyRequests"
# Refusals that end by themselves: a limit of Lambda's, a service that is out of order, still sets
# something up, or did not answer. 502 is none of them: Lambda has it for a wrong subnet too.
# Sources: the errors of RunTask (ECS API Reference), of Invoke (Lambda API Reference) and of
# StartJobRun (EMR Serverless API Reference).
_PASSING = re.compile(
    r"\bServerException|InternalServer|InternalFailure|Lambda\.ServiceException"
    r"|Service ?Unavailable|Status Code: 50[034]|SdkClientException|TooManyRequests|LimitReached"
    r"|UserPending|NotReady|ConflictException|EC2Unexpected"
)
# A job run that was accepted, and that people must mend a right or a role for.
_NOT_TO_BE_HAD = re.compile(r"AccessDenied|not authorized|unable to assume")
CLOSED = "ExecutionClosed"
"""The error of an execution that ended before its attempt was settled."""


@dataclass(frozen=True)
class Evidence:
    """What Step Functions saw: the description of a task that ended well, or an error's cause.

    `task` is what the engine says of the task, in Step Functions' spelling.
    """

    error: str | None = None
    cause: str = ""
    task: dict[str, Any] | None = None

    @classmethod
    def execution_closed(cls, status: str) -> "Evidence":
        """The execution ended (`ABORTED`, `FAILED`, …) before its attempt was settled."""
        return cls(
            error=CLOSED,
            cause=f"the execution ended {status} before its attempt was settled",
        )


@dataclass(frozen=True)
class StoppedTask:
    """A task after a request to stop it.

    `is_gone`: nothing of it runs any more. `ended_as`: how it had ended by itself before.
    `gone_by`: when it has ended at the latest, if a stop does not reach it.
    """

    is_gone: bool
    ended_as: Evidence | None = None
    gone_by: datetime | None = None


@dataclass(frozen=True)
class Verdict:
    """How an attempt ended.

    `stop_task`: the task may still run, so it must be stopped. `gone_by`: when it has ended at the
    latest, if a stop does not reach it.
    """

    kind: OutcomeClass
    detail: str
    stop_task: bool = False
    gone_by: datetime | None = None


def by_exit_code(code: int | None) -> OutcomeClass:
    """How a runner that ended with this code went; None: it never ran, or its code is lost."""
    match code:
        case ExitCode.PERMANENT:
            return OutcomeClass.PERMANENT
        case ExitCode.SUPERSEDED:
            return OutcomeClass.SUPERSEDED
        case ExitCode.OUT_OF_DISK:
            return OutcomeClass.OUT_OF_DISK
        case ExitCode.DENIED:
            return OutcomeClass.REFUSED
        case None | ExitCode.INTERRUPTED:
            return OutcomeClass.INTERRUPTED
        case _:
            return OutcomeClass.FAILED


def says_out_of_memory(text: str) -> bool:
    """Whether an engine's text about a task's end blames its memory."""
    return _OUT_OF_MEMORY.search(text) is not None


def says_no_room(text: str) -> bool:
    """Whether an engine's text about a task's end says that there was no room for it."""
    return _NO_ROOM.search(text) is not None


def says_throttled(text: str) -> bool:
    """Whether a refusal blames the rate of calls alone: a moment later there is room."""
    return _THROTTLED.search(text) is not None and _TOO_MANY_AT_ONCE not in text


def says_not_to_be_had(text: str) -> bool:
    """Whether an engine's text about a task's end says that no such task can start for now."""
    return _NOT_TO_BE_HAD.search(text) is not None


def says_passing(text: str) -> bool:
    """Whether the words of a refusal say that it ends by itself: for want of room, or of a service.

    Of refusals that are not known yet, people had better know.
    """
    return says_no_room(text) or _PASSING.search(text) is not None


def searchable(text: str) -> str:
    """The beginning and the end of a long text: all that a pattern looks at.

    Texts of strangers may be huge. What they say is in their first and in their last lines.
    """
    if len(text) <= 2 * _SEARCHED_CHARS:
        return text
    return f"{text[:_SEARCHED_CHARS]}\n…\n{text[-_SEARCHED_CHARS:]}"


def shorten(text: str) -> str:
    """An error text of at most `MAX_ERROR_CHARS` characters, which says how many it leaves off."""
    if len(text) <= MAX_ERROR_CHARS:
        return text
    kept = MAX_ERROR_CHARS - len(_left_off(len(text)))
    return text[:kept] + _left_off(len(text) - kept)


def _left_off(characters: int) -> str:
    return f"… (and {characters} more characters)"
