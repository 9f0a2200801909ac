"""What a stage's `notify` is told about an end. Pure.

docs/reference/events.md has the JSON schema.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from longhaul.core.dead_letter import Reason
from longhaul.core.lease import Lease, State, key_hash
from longhaul.core.results import NOTHING, Results
from longhaul.pipelines.backfill import Backfill, TreeEnd

DETAIL_TYPE = "Longhaul Job Ended"
"""Of an event on a bus."""

TREE_DETAIL_TYPE = "Longhaul Tree Ended"
"""The same, about a tree. In a queue or topic such an event is told by its field `event`."""

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


@dataclass(frozen=True)
class Untold:
    """A notice that could not be sent `since` then: its stage owes it, and no job."""

    stage: str
    notice: Notice
    since: datetime


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
        message_id=lease.receive.message_id or None,
        outcome=lease.state.value,
        class_=lease.last_class,
        attempts=lease.failures + lease.interruptions + has_succeeded,
        output=output.prefix if output else None,
        outputs={**output.paths} if output else {},
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
        outputs={},
        results=None,
        reason=reason.reason,
        ended_at=now,
    )


def tree_ended(root: Lease | Backfill, end: TreeEnd) -> Notice:
    """The notice of a tree of which nothing goes on: in a FIFO target behind those of its root.

    Or of a backfill, whose name is where a root has its id.
    """
    subject, about = key_hash(root.key), _of_root(root)
    id_ = f"{subject}-{about['run'] or 'backfill'}-tree-{end.digest}"
    body = {
        "version": 1,
        "event": "tree_ended",
        "id": id_,
        "stage": root.stage,
        **about,
        "sequence": end.sequence,
        "outcome": end.outcome,
        "jobs": {stage: {**states} for stage, states in end.jobs.items()},
        "unwell": [
            {
                "stage": each.stage,
                "job_id": each.job_id,
                "label": each.label,
                "state": each.state,
                "class": each.kind,
            }
            for each in end.unwell
        ],
        "ended_at": _iso(end.ended_at),
    }
    return Notice(id_, subject, json.dumps(body), TREE_DETAIL_TYPE)


def _of_root(root: Lease | Backfill) -> dict[str, Any]:
    if isinstance(root, Lease):
        about = {"job_id": root.job_id, "label": root.label, "tags": {**root.tags}}
        return about | {"run": root.run}
    tags = {"backfill": root.name}
    return {"job_id": root.name, "label": None, "tags": tags, "run": None, "unsent": root.unsent}


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


def _notice(
    id_: str,
    subject: str,
    *,
    results: Results | None,
    ended_at: datetime | None,
    **fields: JsonValue,
) -> Notice:
    at = _iso(ended_at) if ended_at else None
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
