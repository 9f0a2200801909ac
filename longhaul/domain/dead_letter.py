"""What a dead letter looks like: the original body and attributes, plus one JSON attribute that says why it is there. Pure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from longhaul.domain.lease import Lease
from longhaul.domain.message import MessageContent

ATTRIBUTE = "longhaul"
"""For people and tools; no rule reads it."""

JOB_ID_ATTRIBUTE = "job_id"
"""Keeps the key of a job whose id was its message id: a redriven message has a new one."""

MAX_ATTRIBUTES = 10
"""SQS takes no more on one message."""

MAX_ATTRIBUTE_CHARS = 8_000
"""The queue's maximum message size is set 16 KiB below the dead-letter queue's, so that this always fits."""


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


def reason_of(lease: Lease, execution_arn: str | None, log_location: str | None) -> Reason:
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


def dead_letter(request: MessageContent, reason: Reason) -> MessageContent:
    """The message for the dead-letter queue.

    SQS takes ten attributes: a producer's that find no room beside ours move into `longhaul` as `moved_attributes`, smallest first; one too large even for
    that is named in `dropped_attributes`.
    """
    ours: dict[str, Any] = {}
    if reason.key and JOB_ID_ATTRIBUTE not in request.attributes:
        ours[JOB_ID_ATTRIBUTE] = {"dataType": "String", "stringValue": reason.key.partition("#")[2]}
    theirs = {name: value for name, value in request.attributes.items() if name != ATTRIBUTE}
    by_size = sorted(theirs, key=lambda name: len(json.dumps(theirs[name])))
    surplus = by_size[: max(0, len(theirs) + len(ours) + 1 - MAX_ATTRIBUTES)]
    text = _explain(reason, {name: theirs.pop(name) for name in surplus})
    attributes = {**theirs, **ours, ATTRIBUTE: {"dataType": "String", "stringValue": text}}
    return MessageContent(request.body, attributes, request.group_id)


def _explain(reason: Reason, moved: Mapping[str, Any]) -> str:
    document = {
        "class" if name == "kind" else name: value for name, value in asdict(reason).items() if value is not None
    }
    dropped: list[str] = []
    for name, value in moved.items():
        candidate = {**document, "moved_attributes": {**document.get("moved_attributes", {}), name: value}}
        if len(json.dumps(candidate)) <= MAX_ATTRIBUTE_CHARS:
            document = candidate
        else:
            dropped.append(name)
    return json.dumps({**document, "dropped_attributes": dropped} if dropped else document)
