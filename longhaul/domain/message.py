"""What a producer sent, apart from any one delivery of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MessageContent:
    """Body and attributes. Attributes have the shape of an event source mapping's record: `{"name": {"dataType": "String", "stringValue": "…"}}`.

    `group_id` is the fair queue's message group: the tenant.
    """

    body: str
    attributes: Mapping[str, Mapping[str, Any]]
    group_id: str | None = None
