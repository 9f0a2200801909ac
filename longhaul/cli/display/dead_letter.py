"""A dead letter on a line, on a page, and as JSON."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from longhaul.cli.display.text import age
from longhaul.core.settings import Stage
from longhaul.operations.letter import DeadLetter
from longhaul.operations.view import iso

COLUMNS = ("message", "job", "label", "stage", "class", "age", "attempts", "why")
SHOWN = ("job", "stage", "class", "age", "attempts", "message", "why")
"""On a terminal, where people read names."""
_ID_SHOWN = 8
_PAGE = (
    "message_id",
    "job_id",
    "label",
    "stage",
    "class",
    "reason",
    "attempts",
    "first_sent",
    "execution_arn",
    "log_location",
)


def name_of(letter: DeadLetter) -> str:
    """The job's label or id where one is known, else the message's id."""
    return letter.label or letter.job_id or letter.message_id


def row_of(letter: DeadLetter, stage: str, now: datetime) -> list[str]:
    """The cells of `COLUMNS`."""
    attempts = str(letter.reason.attempts) if letter.reason else ""
    why = (
        letter.reason.reason
        if letter.reason
        else "no reason attached: SQS moved it after too many receives, or it is not ours"
    )
    names = [letter.message_id, letter.job_id or "", letter.label or ""]
    return [*names, stage, letter.kind, age(now, letter.sent_at), attempts, why]


def named(row: Sequence[str]) -> list[str]:
    """The cells of `SHOWN`."""
    message, job, label, *died, why = row
    return [label or job, *died, message[:_ID_SHOWN], why]


def record_of(letter: DeadLetter, stage: Stage) -> dict[str, Any]:
    """The whole letter as one JSON object."""
    reason = letter.reason
    return {
        "message_id": letter.message_id,
        "job_id": letter.job_id,
        "label": letter.label,
        "tags": dict(letter.request.tags) if letter.request else {},
        "stage": stage.name,
        "class": letter.kind,
        "reason": reason.reason if reason else None,
        "attempts": reason.attempts if reason else None,
        "sent_at": iso(letter.sent_at),
        "first_sent": reason.first_sent if reason else None,
        "execution_arn": reason.execution_arn if reason else None,
        "log_location": reason.log_location if reason else None,
        "body": letter.content.body,
        "attributes": dict(letter.content.attributes),
    }


def page_of(letter: DeadLetter, stage: Stage, now: datetime) -> list[tuple[str, str]]:
    """Names and values, without the body."""
    record = record_of(letter, stage)
    fields = [
        (name.replace("_", " "), str(record[name])) for name in _PAGE if record[name] is not None
    ]
    return [*fields, ("died", f"{age(now, letter.sent_at)} ago")]
