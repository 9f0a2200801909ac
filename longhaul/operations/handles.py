"""What a submission leaves in a program's hands."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from longhaul.operations.wait import Awaited


@dataclass(frozen=True)
class SubmittedJob:
    """A job as it was sent. It can be pickled, and waited for in another process.

    Attributes:
        job_id: Its id, also where the request had none.
        stage: The stage whose queue it was sent to.
        message_id: Of its message in SQS.
        awaited: What a wait compares the job's row with.
    """

    job_id: str
    stage: str
    message_id: str
    awaited: Awaited = field(repr=False, compare=False)


@dataclass(frozen=True)
class UnsentRequest:
    """A request that was not sent.

    Attributes:
        request: Its fields, with the `job_id` that it was given.
        reason: Why it was not sent, in a sentence.
    """

    request: Mapping[str, JsonValue]
    reason: str
