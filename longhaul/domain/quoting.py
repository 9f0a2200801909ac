"""How a reason quotes what came with a message, which may hold a secret. Pure.

Reasons go to rows, dead letters and logs, which more people read than the queue. A field is named;
of its value no more is quoted than a person needs to find it.
"""

import re
from collections.abc import Iterator

from pydantic import JsonValue

_MAX_QUOTED = 8
_MAX_NAME = 24
# A shorter value is likely to be an ordinary word, whose place in a text means nothing.
_MIN_MASKED = 8
# The texts in a query or a script's arguments.
_LITERAL = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def cut(value: str) -> str:
    """A value as a reason may show it: its beginning, never more than half of it."""
    shown = _plain(value[: min(_MAX_QUOTED, len(value) // 2)])
    return f"'{shown}…'"


def name_of(value: str) -> str:
    """A name that came with a message, such as a JSON key: whole if it is short.

    Escaped, so that it cannot forge a line of a log.
    """
    return _plain(value) if len(value) <= _MAX_NAME else f"{_plain(value[:_MAX_NAME])}…"


def without_values(text: str, document: JsonValue) -> str:
    """The text with each value of the document cut where the text repeats it.

    Only texts of eight characters or more count: of the document itself, and those in quotes within
    them, such as the literals of a query.
    """
    for value in sorted(set(_texts(document)), key=len, reverse=True):
        if value in text:
            text = text.replace(value, f"{value[: _MAX_QUOTED // 2]}…")
    return text


def _texts(document: JsonValue) -> Iterator[str]:
    # Not recursive: a document may be nested more deeply than calls may be.
    left = [document]
    while left:
        match left.pop():
            case str() as text:
                found = (text, *(one or other for one, other in _LITERAL.findall(text)))
                yield from (each for each in found if len(each) >= _MIN_MASKED)
            case list() as entries:
                left += entries
            case dict() as fields:
                left += fields.values()


def _plain(text: str) -> str:
    return text.encode("unicode_escape").decode()
