"""Message attributes: ours beside the producer's, on messages that Longhaul sends. Pure.

SQS takes ten on one message. When ours leave no room for all of the producer's, the smallest of
theirs travel together in one attribute, and are unpacked at the next receive. So nothing is lost,
however often a message is renewed, dead-lettered or redriven.
"""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

Attributes = Mapping[str, Mapping[str, Any]]
"""As in a mapping's record: `{"name": {"dataType": "String", "stringValue": "…"}}`."""

JOB_ID = "job_id"
"""The job's id, on copies and redrives of a message whose body has none.

Without it their key would be made of their own message id.
"""

FIRST_SENT = "longhaul_first_sent"
"""When the work was asked for, in ISO 8601, on what may be sent more than once.

Of a copy: when the first message of its chain was sent. Of a follow-on: when its parent ended. Of
a schedule's firing: its time.
"""

RENEWS = "longhaul_renews"
"""On a copy: the id of the first message of its chain."""

AGAIN = "longhaul_again"
"""On a request that is sent to run an ended job again: the run that it replaces.

So a repeat is a duplicate. With `/only` behind it nothing follows from the new run.
"""

EXPLANATION = "longhaul"
"""On a dead letter: why it is there, as JSON. For people and tools; no rule reads it."""

MOVED = "moved_attributes"
"""The producer's attributes that have no room of their own, as JSON."""

MAX_ATTRIBUTES = 10

_OURS = frozenset({FIRST_SENT, RENEWS, AGAIN, EXPLANATION, MOVED})

# SQS's rules for what it takes. What came as an attribute follows them; what was packed into one
# may be anything, because a producer can send that attribute too.
# Source: AWS, "Amazon SQS message metadata".
_NAME = re.compile(r"(?!AWS\.|Amazon\.|\.)[A-Za-z0-9_.-]{1,256}(?<!\.)", re.IGNORECASE)
_TYPE = re.compile(r"(String|Number|Binary)(\.[\x21-\x7e]{1,240})?")
_NUMBER = re.compile(r"[+-]?\d{1,38}(\.\d{1,38})?(e[+-]?\d{1,2})?", re.ASCII | re.IGNORECASE)
_TEXT = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


def text(value: str) -> dict[str, Any]:
    return {"dataType": "String", "stringValue": value}


def value_of(attributes: Attributes, name: str) -> str | None:
    """The text of an attribute; None when it is absent or binary."""
    value = attributes.get(name, {}).get("stringValue")
    return value if isinstance(value, str) else None


def with_ours(theirs: Attributes, ours: Mapping[str, str]) -> Attributes:
    """The producer's attributes and ours, at most ten of them; ours win a clash of names."""
    kept = {name: value for name, value in theirs.items() if name not in ours}
    added = {name: text(value) for name, value in ours.items()}
    if len(kept) + len(added) > MAX_ATTRIBUTES:
        # First a producer's attribute of that name: the room is needed.
        by_size = sorted(kept, key=lambda name: (name != MOVED, len(json.dumps(kept[name]))))
        moved = {
            name: kept.pop(name) for name in by_size[: len(kept) + len(added) + 1 - MAX_ATTRIBUTES]
        }
        added[MOVED] = text(json.dumps(moved, separators=(",", ":")))
    return {**kept, **added}


def theirs_of(attributes: Attributes) -> Attributes:
    """The producer's attributes of a message that may have been through `with_ours`."""
    theirs = {name: value for name, value in attributes.items() if name not in _OURS}
    packed = value_of(attributes, MOVED)
    if packed is None:
        return theirs
    moved = _unpacked(packed)
    # None: a producer's own attribute that happens to have this name.
    return {**theirs, MOVED: attributes[MOVED]} if moved is None else theirs | moved


def _unpacked(packed: str) -> dict[str, dict[str, str]] | None:
    """The attributes that `with_ours` packed; None for a text that is not of its making."""
    try:
        moved = json.loads(packed)
    except (ValueError, RecursionError):
        return None
    if not isinstance(moved, dict) or not all(map(_is_attribute, moved, moved.values())):
        return None
    return moved


def _is_attribute(name: str, value: object) -> bool:
    """Whether SQS would take the attribute, and it may be a producer's."""
    if not _NAME.fullmatch(name) or ".." in name or name in _OURS - {MOVED}:
        return False
    if not isinstance(value, dict):
        return False
    kind, text, binary = (value.get(part) for part in ("dataType", "stringValue", "binaryValue"))
    if not isinstance(kind, str) or not (found := _TYPE.fullmatch(kind)):
        return False
    if found[1] == "Binary":
        return text is None and isinstance(binary, str) and _is_base64(binary)
    wanted = _NUMBER if found[1] == "Number" else _TEXT
    return binary is None and isinstance(text, str) and wanted.fullmatch(text) is not None


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False
