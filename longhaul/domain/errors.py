"""What can go wrong, and in the type: whether trying again can help.

LonghaulError
├── PermanentError                 trying again cannot help: dead-letter
│   ├── InvalidRequestError        the message body can never run
│   └── PermanentJobError          the job itself says so (bad parameters, missing input, bad data)
├── NoFreeSlotError                wait: every slot of the stage is taken
├── LeaseChangedError              look at the row again: somebody else's write came first
├── VoidCommitError                a committed output's uploads are gone: the job has to run again
└── SupersededError                stop quietly: this attempt no longer owns the job
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longhaul.domain.lease import Lease


class LonghaulError(Exception):
    """Base of every error that Longhaul raises on purpose."""


class PermanentError(LonghaulError):
    """Trying again cannot help."""


class InvalidRequestError(PermanentError):
    """A message body that can never run. `problems` has one sentence for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class PermanentJobError(PermanentError):
    """Raised by a job: this request cannot succeed, so it is dead-lettered at once instead of being tried again."""


class NoFreeSlotError(LonghaulError):
    """Every slot of the stage is taken; the message waits."""


class LeaseChangedError(LonghaulError):
    """A conditional write lost: the row is not as it was read. `current` is the row that won, None when it is gone."""

    def __init__(self, current: "Lease | None") -> None:
        super().__init__("the lease changed under a conditional write")
        self.current = current


class VoidCommitError(LonghaulError):
    """The uploads of a committed output were aborted or expired before they were completed."""


class SupersededError(LonghaulError):
    """This attempt does not own its job any more: it was settled, replaced or cancelled. Write nothing more."""
