"""What can go wrong; the type says whether trying again can help. Pure.

LonghaulError
├── PermanentError                 trying again cannot help: dead-letter
│   ├── InvalidRequestError        the message body can never run
│   │   └── UnprovenError          nothing shows that it is of the job that it names
│   ├── PermanentJobError          the job itself says so (bad parameters, missing input, bad data)
│   ├── TornOutputError            part of an output shows, the rest never can: people decide
│   └── TooLargeError              what a task wrote would take more memory than a function has
├── NoFreeSlotError                wait: every slot of the stage is taken
├── LeaseChangedError              look at the row again: another write came first
├── DeniedError                    wait: AWS denies what each job needs, until people mend a right
│   └── SecretUnreadableError      the same: a secret of the stage is denied, or is not there
├── UnreadableRowError             another version wrote the row: it waits for one that can read it
├── UnfinishedError                later: the rest is still owed
│   ├── TimeUpError                the invocation ends soon
│   ├── UploadsGoneError           uploads are neither pending nor completed: look again much later
│   ├── ContendedError             others changed the same thing each time
│   └── NotDeletedError            files of the output before are still there
├── NotNotifiedError               the target of a notice was not asked, or takes none for now
├── NoticeRefusedError             nor will it take the notice, until people change something
└── VoidCommitError                a committed output can never show: the job has to run again
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longhaul.core.lease import Lease


class LonghaulError(Exception):
    """Base of every error that Longhaul raises on purpose."""


class PermanentError(LonghaulError):
    """Trying again cannot help."""


class InvalidRequestError(PermanentError):
    """A message body that can never run.

    `problems` has one sentence for each thing that is wrong.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class SupersededError(InvalidRequestError):
    """A message was sent by a run of its parent that another has replaced, or a cancel cut off."""


class UnprovenError(InvalidRequestError):
    """A request has the id of a job that follows from another, and nothing shows that it is that.

    So it says nothing of the job, which may still come.
    """


class PermanentJobError(PermanentError):
    """Raised by a job: this request cannot succeed, so it is dead-lettered at once."""


class TooLargeError(PermanentError):
    """What a task wrote is not read: it would take more memory than a function has."""


class NoFreeSlotError(LonghaulError):
    """Every slot of the stage is taken; the message waits."""


class LeaseChangedError(LonghaulError):
    """A conditional write lost: the row is not as it was read.

    `current` is the row that won, None when it is gone.
    """

    def __init__(self, current: "Lease | None") -> None:
        super().__init__("the lease changed under a conditional write")
        self.current = current


class DeniedError(LonghaulError):
    """AWS denies a task what each job of the stack needs: its request, or its own row.

    A policy of the account's, or one of a key, says so until people mend it.
    """


class SecretUnreadableError(DeniedError):
    """A task cannot read a secret of its stage: no right, no such secret, or no such key in it.

    No job of the stage can run until people mend that.
    """


class UnreadableRowError(LonghaulError):
    """A row exists, and this version cannot read it.

    A newer one wrote it before a rollback, or a job's code has changed its own row.

    It is not absent: nothing that belongs to it may be claimed, stopped or removed.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"the row of {key} cannot be read by this version")
        self.key = key


class UnfinishedError(LonghaulError):
    """Part of the work is done, and the rest is still owed."""


class TimeUpError(UnfinishedError):
    """The invocation ends soon. What has begun goes on without the caller."""


class UploadsGoneError(UnfinishedError):
    """Uploads of a committed output are neither pending nor completed.

    They were aborted, or have expired; or S3 is completing them, which may take minutes.
    """


class ContendedError(UnfinishedError):
    """Others changed an output, a table or a tree's root each time that this one tried to."""


class NotDeletedError(UnfinishedError):
    """The output is in place, and S3 did not delete all that it replaces."""


class NotNotifiedError(LonghaulError):
    """The target of a notice was not asked, or takes none for now; the text says why."""


class NoticeRefusedError(LonghaulError):
    """No such target, or no permission for it; the text has AWS's own."""


class VoidCommitError(LonghaulError):
    """A committed output can never become visible.

    Its uploads are gone for good, or another output is in its way.
    """


class TornOutputError(PermanentError):
    """Part of an output is published, and another part can never be: a person has to decide.

    The job must not run again: it would add its rows twice to what is published.
    """


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it came from, as Python itself prints them; each once."""
    seen: set[int] = set()
    left: BaseException | None = error
    while left is not None and id(left) not in seen:
        seen.add(id(left))
        yield left
        left = left.__cause__ or (None if left.__suppress_context__ else left.__context__)
