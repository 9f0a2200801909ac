"""The lines of a world's trace."""

from typing import Any

from simulation.seen.checks import Moment
from simulation.seen.sightings import Row


def moment_text(moment: Moment, what: Any, *_more: Any) -> str:
    """The trace's text for a moment; empty where the trace of the call is enough."""
    match moment:
        case "message removed":
            return f"{what.message.id[:8]} of {what.key}"
        case "dead letter":
            return f"{what.reason.get('class')}: {what.reason.get('reason')}"
        case "execution started" | "commit voided" | "commit" | "manifest put":
            return str(what)
        case "execution ended":
            return f"{what.name} {what.status} {what.error or ''}"
        case "container began":
            return str(what.host.name)
        case "container over":
            return f"{what.host.name} {what.end_text}"
    return ""


def row_text(item: Row) -> str:
    names = (
        "key",
        "state",
        "run",
        "attempt",
        "failures",
        "interruptions",
        "message_id",
        "receipt_handle",
        "last_class",
    )
    shown = [f"{name}={next(iter(item[name].values()))}" for name in names if name in item]
    owed = [each["S"] for each in item.get("owed", {}).get("L", [])]
    marks = [
        name for name in ("output", "published_at", "cancel_requested_at", "result") if name in item
    ]
    return " ".join([*shown, *(["owed=" + "+".join(owed)] if owed else []), *marks])
