"""Message attributes: ours beside the producer's, on messages that Longhaul sends. Pure.

SQS takes ten on one message. When ours leave no room for all of the producer's, the smallest of theirs travel together in one attribute, and are unpacked when
the message is received again: nothing is lost, however often a message is renewed, dead-lettered or redriven.
"""

import json
from collections.abc import Mapping
from typing import Any

Attributes = Mapping[str, Mapping[str, Any]]
"""As an event source mapping's record has them: `{"name": {"dataType": "String", "stringValue": "…"}}`."""

JOB_ID = "job_id"
"""The job's id, for messages whose body names none: their key is made of the message id, and a copy or a redrive has a new one."""

FIRST_SENT = "first_sent"
"""When the producer sent the job's first message, in epoch milliseconds."""

RENEWS = "renews"
"""On a copy: the id of the message that it stands for."""

EXPLANATION = "longhaul"
"""On a dead letter: why it is there, as JSON. For people and tools; no rule reads it."""

MOVED = "moved_attributes"
"""The producer's attributes that found no room of their own, as JSON."""

MAX_ATTRIBUTES = 10

_OURS = frozenset({FIRST_SENT, RENEWS, EXPLANATION, MOVED})


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
        by_size = sorted(kept, key=lambda name: len(json.dumps(kept[name])))
        moved = {name: kept.pop(name) for name in by_size[: len(kept) + len(added) + 1 - MAX_ATTRIBUTES]}
        added[MOVED] = text(json.dumps(moved, separators=(",", ":")))
    return {**kept, **added}


def theirs_of(attributes: Attributes) -> Attributes:
    """The producer's attributes of a message that may have been through `with_ours`."""
    theirs = {name: value for name, value in attributes.items() if name not in _OURS}
    packed = value_of(attributes, MOVED)
    if packed is not None:
        try:
            moved = json.loads(packed)
        except (ValueError, RecursionError):
            moved = None
        if not isinstance(moved, dict) or not all(
            isinstance(value, dict) for value in moved.values()
        ):  # a producer's own attribute that happens to have this name
            return {**theirs, MOVED: attributes[MOVED]}
        theirs |= moved
    return theirs
