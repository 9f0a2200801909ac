"""What a dead letter looks like: the original body and attributes, plus one JSON attribute that says why it is there. Pure."""

import json
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from longhaul.domain import attributes
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.lease import Lease
from longhaul.domain.message import MessageContent
from longhaul.domain.request import parse_job_id

UNEXPLAINED = "unexplained"
_TEXTS = ("kind", "reason", "key", "execution_arn", "log_location", "first_sent")


@dataclass(frozen=True)
class Reason:
    """Why a message is in the dead-letter queue."""

    kind: str
    reason: str
    key: str | None = None
    run: int | None = None
    attempts: int = 0
    failures: int = 0
    interruptions: int = 0
    execution_arn: str | None = None
    log_location: str | None = None
    first_sent: str | None = None

    def to_json(self) -> str:
        """Under 8 KiB: the queue's maximum message size is set 16 KiB below the dead-letter queue's, so that this always fits."""
        return json.dumps(
            {"class" if name == "kind" else name: value for name, value in asdict(self).items() if value is not None}
        )


@dataclass(frozen=True)
class DeadLetter:
    """One receive of a dead letter. `reason` is None for one without our attribute: SQS moved it itself, or somebody else sent it."""

    message_id: str
    receipt_handle: str
    sent_at: datetime
    content: MessageContent
    reason: Reason | None

    @property
    def kind(self) -> str:
        """Its class; `unexplained` without a reason."""
        return self.reason.kind if self.reason else UNEXPLAINED

    @property
    def job_id(self) -> str | None:
        """Of the job that it was the message of; None when nothing says.

        One that is invalid for another reason still has the id that its producer asks for it by. What is no job id is none here either.
        """
        if self.reason and self.reason.key:
            return self.reason.key.partition("#")[2]
        return _id_in(self.content.body) or attributes.value_of(self.content.attributes, attributes.JOB_ID)


def _id_in(body: str) -> str | None:
    try:
        document = json.loads(body)
        return parse_job_id(document["job_id"])
    except (ValueError, RecursionError, TypeError, KeyError, InvalidRequestError):
        return None


def explanation_of(content: MessageContent) -> Reason | None:
    """The reason that a dead letter carries. What it says is not trusted: a field that is not what it should be is left out."""
    try:
        found = json.loads(attributes.value_of(content.attributes, attributes.EXPLANATION) or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("class"), str):
        return None
    known: dict[str, Any] = {"reason": "", "kind": found["class"]}
    for field in fields(Reason):
        if isinstance(found.get(field.name), str if field.name in _TEXTS else int):
            known[field.name] = found[field.name]
    return Reason(**known)


def redriven(letter: DeadLetter) -> MessageContent:
    """The message that sends a dead letter's job back: the producer's body and attributes, under its old key."""
    theirs = dict(attributes.theirs_of(letter.content.attributes))
    # A message that SQS moved by itself kept its id, and the key of its job may be made of that.
    job_id = attributes.value_of(theirs, attributes.JOB_ID) or (None if letter.reason else letter.message_id)
    ours = {attributes.JOB_ID: job_id} if job_id else {}
    return MessageContent(letter.content.body, attributes.with_ours(theirs, ours), letter.content.group_id)


def reason_of(lease: Lease, execution_arn: str, log_location: str | None) -> Reason:
    """Why this job is dead, as its row tells."""
    return Reason(
        kind=lease.last_class or "failed",
        reason=lease.last_error or "",
        key=lease.key,
        run=lease.run,
        attempts=lease.failures + lease.interruptions,
        failures=lease.failures,
        interruptions=lease.interruptions,
        execution_arn=execution_arn,
        log_location=log_location,
        first_sent=lease.first_sent_at.isoformat(timespec="seconds") if lease.first_sent_at else None,
    )


def dead_letter(content: MessageContent, reason: Reason) -> MessageContent:
    """The message for the dead-letter queue; with the job's id, so that a redrive finds its key."""
    ours = {attributes.EXPLANATION: reason.to_json()}
    if reason.key and attributes.JOB_ID not in content.attributes:
        ours[attributes.JOB_ID] = reason.key.partition("#")[2]
    return MessageContent(content.body, attributes.with_ours(content.attributes, ours), content.group_id)
