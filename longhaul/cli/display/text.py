"""Text on a terminal and on the page: nothing that came from outside is shown raw."""

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from longhaul.core.durations import format_duration

if TYPE_CHECKING:
    from longhaul.operations.logs import LogEvent

_UNIT = re.compile(r"\d{1,9}[dhms]")
_THOUSAND = 1000
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Fields that all lines of an attempt share, or that are shown in front.
_COMMON = {"timestamp", "level", "logger", "message", "job_id", "attempt", "execution", "stack"}


def printable(text: object, *, lines: bool = False) -> str:
    r"""Escape what a terminal obeys or hides, such as `\x1b`.

    These are control characters and escape sequences, marks of text direction, and characters
    without a shape. `lines` keeps line ends and tabs.
    """
    breaks = "\n\t" if lines else ""
    return "".join(
        c
        if c in breaks or unicodedata.category(c) not in _UNPRINTABLE
        else c.encode("unicode_escape").decode()
        for c in str(text)
    )


def log_line(event: "LogEvent") -> str:
    """A line of a task's log, readable.

    JSON of the runner becomes time, level, message and its own fields, and below them an indented
    line for each frame of an error; another line is unchanged.
    """
    line = _of_the_runner(event.text)
    return (
        _log_line(line)
        if line is not None
        else printable(event.text, lines=True).replace("\n", " ")
    )


def _of_the_runner(text: str) -> dict[str, Any] | None:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and "message" in fields else None


def _log_line(fields: Mapping[str, Any]) -> str:
    clock, level = str(fields.get("timestamp", ""))[11:23], str(fields.get("level", ""))
    rest = " ".join(f"{name}={value}" for name, value in fields.items() if name not in _COMMON)
    line = f"{clock} {level:7} {fields['message']} {rest}".rstrip()
    stack = fields.get("stack")
    frames = stack if isinstance(stack, list) else []
    return "\n    ".join(
        printable(each, lines=True).replace("\n", "\\n") for each in (line, *frames)
    )


def age(now: datetime, moment: datetime) -> str:
    """The time since then, in at most two units: `3d4h`, `2m`, `12s`."""
    return "".join(_UNIT.findall(format_duration(max(0.0, (now - moment).total_seconds())))[:2])


def size_text(size: int) -> str:
    """Such as `512 bytes`, `1.5 MB`, `120 GB`: powers of a thousand."""
    value, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < _THOUSAND:
            break
        value, unit = value / _THOUSAND, larger
    return f"{value:.3g} {unit}"


def counted(count: int, noun: str) -> str:
    """Such as `1 slot` and `2 slots`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def moment_text(moment: datetime | None) -> str:
    """To the second, in UTC; empty for None."""
    return f"{moment:%Y-%m-%d %H:%M:%S}Z" if moment else ""
