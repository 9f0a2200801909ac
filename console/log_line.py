"""A line of a task's log, as people read it."""

import json

from console.output import printable
from longhaul.ports import LogEvent


def readable(event: LogEvent) -> str:
    """A line of the runner's is JSON, for machines: here without what all lines of an attempt have in common."""
    try:
        found = json.loads(event.text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or "message" not in found:
        return printable(event.text, lines=True).replace("\n", " ")
    common = {"timestamp", "level", "logger", "message", "job_id", "attempt", "execution"}
    rest = " ".join(f"{name}={value}" for name, value in found.items() if name not in common)
    return printable(
        f"{str(found.get('timestamp', ''))[11:23]} {found.get('level', '')!s:7} {found['message']} {rest}"
    ).rstrip()
