"""Dead letters: the original body and attributes, and one JSON attribute that says why. Pure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

from longhaul.core.lease import Lease
from longhaul.core.message import EXPLANATION, JOB_ID, Message, theirs_of, with_ours
from longhaul.core.request import Named

UNSENDABLE = "unsendable"
"""Of a follow-on that no queue takes."""


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
    label: str | None = None
    # For the notice alone: a dead letter has them in its body.
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Under 8 KiB, which always fits.

        The jobs queue's maximum message size is 16 KiB below the dead-letter queue's.
        """
        return json.dumps(
            {
                "class" if name == "kind" else name: value
                for name, value in asdict(self).items()
                if value is not None and name != "tags"
            }
        )


def refusal(
    kind: str, text: str, sent_at: datetime, key: str | None = None, names: Named | None = None
) -> Reason:
    """Why a message is dead-lettered that starts no run. `names`: its request, if it is one."""
    return Reason(
        kind=kind,
        reason=text,
        key=key,
        first_sent=sent_at.isoformat(timespec="seconds"),
        label=names.label if names else None,
        tags=names.tags if names else {},
    )


def reason_of(lease: Lease, execution_arn: str | None, log_location: str | None) -> Reason:
    """Why this job is dead, from its row."""
    first_sent_at = lease.receive.first_sent_at
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
        first_sent=first_sent_at.isoformat(timespec="seconds") if first_sent_at else None,
        label=lease.label,
        tags=lease.tags,
    )


def dead_letter(content: Message, reason: Reason) -> Message:
    """The message for the dead-letter queue, with the job's id: a redrive needs it for the key.

    Without the attributes of a copy or a follow-on: what is redriven is sent then, and not before.
    """
    theirs = theirs_of(content.attributes)
    ours = {EXPLANATION: reason.to_json()}
    if reason.key and JOB_ID not in theirs:
        ours[JOB_ID] = reason.key.partition("#")[2]
    return Message(content.body, with_ours(theirs, ours), content.group_id)
