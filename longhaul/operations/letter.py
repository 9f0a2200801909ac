"""One dead letter as people see it, and the message that runs its job again. Pure."""

import json
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import Any

from longhaul.core.dead_letter import Reason
from longhaul.core.errors import InvalidRequestError
from longhaul.core.message import (
    EXPLANATION,
    JOB_ID,
    Message,
    id_in,
    theirs_of,
    value_of,
    with_ours,
)
from longhaul.core.request import JobRequest, read_request
from longhaul.core.settlement import INTERNAL_ERROR, STAGE_REMOVED
from longhaul.core.verdict import OutcomeClass

UNEXPLAINED = "unexplained"
CLASSES = frozenset(OutcomeClass) - {OutcomeClass.SUCCEEDED} | {
    "conflicting_job_id",
    "incomplete_join",
    INTERNAL_ERROR,
    "invalid_request",
    STAGE_REMOVED,
    UNEXPLAINED,
    "unsendable",
}
"""The classes that Longhaul writes. A letter may have another, of another version."""

_TEXTS = ("kind", "reason", "key", "execution_arn", "log_location", "first_sent", "label")


@dataclass(frozen=True)
class DeadLetter:
    """One receive of a dead letter.

    `reason` is None without our attribute: SQS moved it by itself, or it was sent by hand.
    """

    message_id: str
    receipt_handle: str
    sent_at: datetime
    content: Message
    reason: Reason | None

    @property
    def kind(self) -> str:
        """Its class; `unexplained` without a reason."""
        return self.reason.kind if self.reason else UNEXPLAINED

    @property
    def job_id(self) -> str | None:
        """Id of its job; None when it has no valid one.

        A request that is invalid for another reason still has its producer's id.
        """
        if self.reason and self.reason.key:
            return self.reason.key.partition("#")[2]
        return id_in(self.content.body) or value_of(self.content.attributes, JOB_ID)

    @property
    def label(self) -> str | None:
        """What people call its job; a correction that named none has it of the run before."""
        of_body = self.request.label if self.request else None
        return of_body or (self.reason.label if self.reason else None)

    @cached_property
    def request(self) -> JobRequest | None:
        """Its body; None when that is no request."""
        try:
            return read_request(self.content.body)
        except InvalidRequestError:
            return None


def explanation_of(content: Message) -> Reason | None:
    """The reason in a dead letter's attribute.

    Untrusted input: a field of a wrong type is left out.
    """
    try:
        document = json.loads(value_of(content.attributes, EXPLANATION) or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("class"), str):
        return None
    values: dict[str, Any] = {"reason": "", "kind": document["class"]}
    for field in fields(Reason):
        if isinstance(document.get(field.name), str if field.name in _TEXTS else int):
            values[field.name] = document[field.name]
    return Reason(**values)


def redriven(letter: DeadLetter, *, afresh: bool = False) -> Message:
    """The message that runs a dead letter's job again, under its old key.

    It has the producer's body and attributes. With `afresh` the job leaves what it has stored.
    """
    theirs = dict(theirs_of(letter.content.attributes))
    # A message that SQS moved by itself kept its id, which may be its job's id.
    job_id = value_of(theirs, JOB_ID) or (None if letter.reason else letter.message_id)
    ours = {JOB_ID: job_id} if job_id else {}
    body = letter.content.body
    # A producer's wish to begin afresh holds for the run that it asked for.
    if afresh or (letter.reason is not None and letter.reason.attempts):
        body = sent_again(body, afresh=afresh)
    return Message(body, with_ours(theirs, ours), letter.content.group_id)


def sent_again(body: str, *, afresh: bool) -> str:
    """The body of a request that leaves what its job has stored, or does not, however it was.

    A text that is no JSON object stays as it is: it is no request.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(document, dict) or document.get("afresh", False) == afresh:
        return body
    # Added at the end, where it counts, so that the rest stays as the producer wrote it.
    fields = body.rstrip().removesuffix("}").rstrip()
    return f'{fields}{", " if document else ""}"afresh": {json.dumps(afresh)}}}'
