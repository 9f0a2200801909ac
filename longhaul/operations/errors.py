"""What an operation can raise. Each message says what to do.

LonghaulError
├── InvalidRequestError       (longhaul.core.errors) a request can never run: nothing was sent
├── NoSuchStackError          there is none of that name where AWS was asked
│   └── ForeignStackError     it is not Longhaul's, or its deployment did not end well
├── OtherVersionError         another version of Longhaul deployed the stack
├── NoSuchStageError          the stack has none of that name
├── RetiredStageError         nothing starts in the stage any more
├── NoSuchJobError            nothing is known of a job
├── AmbiguousJobError         several stages have a job of that id
├── NoSuchTableError          the stack has none of that name
├── JobIdConflictError        the job id belongs to another request
├── NotRetriableError         a job cannot be run again: it has not ended, or left no request
├── NotSentError              some requests were not sent
├── BackfillCancelledError    somebody has cancelled it, and the rest was not sent
├── WaitTimeoutError          a job has not ended in time; also a TimeoutError
├── JobDeadError              a job has ended without success
└── JobCancelledError         a job was cancelled

Errors of AWS itself, such as missing credentials, are botocore's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError
from pydantic import JsonValue

from longhaul.core.aws_errors import code_of
from longhaul.core.errors import InvalidRequestError as InvalidRequestError
from longhaul.core.errors import LonghaulError as LonghaulError

if TYPE_CHECKING:
    from longhaul.operations.view import JobStatus
    from longhaul.operations.wait import SubmittedJob


_GONE: Final = (
    "ResourceNotFoundException",
    "NonExistentQueue",
    "QueueDoesNotExist",
    "NoSuchBucket",
    "StateMachineDoesNotExist",
)


def is_gone(error: ClientError) -> bool:
    """Whether a part of the stack is not there, or not any more: it was deployed again."""
    return code_of(error).endswith(_GONE)


class NoSuchStackError(LonghaulError):
    """There is no such stack where AWS was asked.

    `others` names the stacks of Longhaul that are there.
    """

    def __init__(self, message: str, others: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.others = tuple(others)


class ForeignStackError(NoSuchStackError):
    """The stack is not Longhaul's, or its deployment did not end well."""


class OtherVersionError(LonghaulError):
    """Another version of Longhaul deployed the stack, whose settings this one cannot read."""


class NoSuchStageError(LonghaulError):
    """The stack has no stage of that name."""


class RetiredStageError(LonghaulError):
    """Nothing starts in the stage any more."""


class NoSuchJobError(LonghaulError):
    """Nothing is known of a job: it is still queued, or was never sent."""


class AmbiguousJobError(LonghaulError):
    """Several stages have a job of that id."""


class NoSuchTableError(LonghaulError):
    """The stack has no table of that name."""


class JobIdConflictError(LonghaulError):
    """The job id belongs to another request."""


class NotRetriableError(LonghaulError):
    """A job cannot be run again; the message says why, and what can be done."""


class BackfillCancelledError(LonghaulError):
    """Somebody has cancelled a backfill while its command ran; the message says what is left."""


@dataclass(frozen=True)
class UnsentRequest:
    """A request that was not sent.

    Attributes:
        request: Its fields, with the `job_id` that it was given.
        reason: Why it was not sent, in a sentence.
    """

    request: Mapping[str, JsonValue]
    reason: str


class NotSentError(LonghaulError):
    """Some requests were not sent. All others were.

    Attributes:
        sent: The jobs that were sent.
        unsent: Each of the others with its job id, and why it was not sent. They can be submitted
            again as they are: one that did arrive is then a duplicate, and does no harm.
    """

    def __init__(
        self, message: str, sent: Sequence["SubmittedJob"], unsent: Sequence[UnsentRequest]
    ) -> None:
        super().__init__(message)
        self.sent = tuple(sent)
        self.unsent = tuple(unsent)


class _JobError(LonghaulError):
    def __init__(self, message: str, status: "JobStatus") -> None:
        super().__init__(message)
        self.status = status


class WaitTimeoutError(_JobError, TimeoutError):
    """A job has not ended in time. It goes on; `status` is how it stood at the last look."""


class JobDeadError(_JobError):
    """A job has ended without success, and its message is in the dead-letter queue.

    `status.kind` and `status.error` say why.
    """


class JobCancelledError(_JobError):
    """A job was cancelled. `status` is how it ended."""
