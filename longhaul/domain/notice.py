"""What a stage's `notify` is told about an end. Pure.

docs/events.md has the JSON schema.
"""

import json
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from longhaul.domain.dead_letter import Reason
from longhaul.domain.lease import Lease, State, key_hash
from longhaul.domain.results import NOTHING, Results

DETAIL_TYPE = "Longhaul Job Ended"
"""Of an event on a bus."""

REFUSED = "REFUSED"
"""The outcome of a message that started no run."""


@dataclass(frozen=True)
class Notice:
    """An event about one end.

    `id` is the same however often it is sent. In a FIFO target the notices of one `subject`, a job,
    stay in their order. A bus tells kinds of events apart by their detail type.
    """

    id: str
    subject: str
    body: str
    detail_type: str = DETAIL_TYPE


def ended(lease: Lease) -> Notice:
    """The notice of a run that has ended, with nothing but its delete owed."""
    has_succeeded = lease.state is State.SUCCEEDED
    output = lease.attempt.output if has_succeeded else None
    return _notice(
        f"{lease.id.key_hash}-{lease.run}",
        lease.id.key_hash,
        stage=lease.stage,
        job_id=lease.job_id,
        label=lease.label,
        tags={**lease.tags},
        run=lease.run,
        message_id=lease.receive.message_id,
        outcome=lease.state.value,
        class_=lease.last_class,
        attempts=lease.failures + lease.interruptions + has_succeeded,
        output=output.prefix if output else None,
        results=lease.results,
        reason=None if has_succeeded else lease.last_error,
        ended_at=lease.settled_at,
    )


def refused(stage: str, reason: Reason, message_id: str | None, now: datetime) -> Notice:
    """The notice of a message that became a dead letter without a run.

    Its id is the message's, because a job of the same job_id may run or have succeeded. A follow-on
    that was never sent has no message.
    """
    subject = key_hash(f"{stage}#{message_id}" if message_id else reason.key or stage)
    return _notice(
        f"{subject}-refused",
        subject,
        stage=stage,
        job_id=reason.key.partition("#")[2] if reason.key else None,
        label=reason.label,
        tags={**reason.tags},
        run=None,
        message_id=message_id,
        outcome=REFUSED,
        class_=reason.kind,
        attempts=0,
        output=None,
        results=None,
        reason=reason.reason,
        ended_at=now,
    )


def _notice(
    id_: str,
    subject: str,
    *,
    results: Results | None,
    ended_at: datetime | None,
    **fields: JsonValue,
) -> Notice:
    at = ended_at.isoformat(timespec="milliseconds") if ended_at else None
    # `class` is a keyword of Python.
    named = {name.removesuffix("_"): value for name, value in fields.items()}
    found = results or NOTHING
    body = {
        "version": 1,
        "id": id_,
        **named,
        "ended_at": at,
        "result": found.value,
        "rows": found.rows,
        "metrics": found.metrics,
    }
    return Notice(id_, subject, json.dumps(body))
