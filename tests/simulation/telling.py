"""The words of a history."""

from collections.abc import Mapping
from typing import Any

from tests.simulation.invariants.table import Moment

Row = Mapping[str, Any]
"""A lease as it is stored."""


def told(moment: Moment, what: Any) -> str:
    """What a history says of a moment; nothing where the call says it all."""
    match moment:
        case "message removed":
            return f"{what.message.id[:8]} of {what.key}"
        case "dead letter":
            return f"{what.reason.get('class')}: {what.reason.get('reason')}"
        case "execution started" | "commit" | "manifest put":
            return str(what if moment == "execution started" else what[0])
        case "execution ended":
            return f"{what.name} {what.status} {what.error or ''}"
        case "container began":
            return str(what.host.name)
        case "container over":
            return f"{what.host.name} {what.task.stop_code} exit {what.task.exit_code} ({what.end_kind})"
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
    marks = [name for name in ("output", "published_at", "cancel_requested_at", "result") if name in item]
    return " ".join([*shown, *(["owed=" + "+".join(owed)] if owed else []), *marks])
