"""What a producer sent, apart from any one delivery of it."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from longhaul.domain import attributes
from longhaul.domain.attributes import Attributes

MAX_BATCH = 10
MAX_BATCH_BYTES = 1_048_576
"""What SQS takes in one call: so many messages, and together so many bytes."""

T = TypeVar("T")


@dataclass(frozen=True)
class MessageContent:
    """Body and attributes. `group_id` is the fair queue's message group: the tenant."""

    body: str
    attributes: Attributes
    group_id: str | None = None


def renewal(content: MessageContent, message_id: str, key: str, first_sent_at: datetime) -> MessageContent:
    """The copy that stands for a message before SQS gives up on it: at 1000 receives, or at the end of its retention."""
    ours = {
        attributes.JOB_ID: key.partition("#")[2],
        attributes.FIRST_SENT: str(round(first_sent_at.timestamp() * 1000)),
        attributes.RENEWS: message_id,
    }
    return MessageContent(content.body, attributes.with_ours(content.attributes, ours), content.group_id)


def weight_of(content: MessageContent) -> int:
    """Bytes that count towards the size of a call, a little too many: names and types of attributes, and the JSON around them, are counted too."""
    return len(content.body.encode()) + len(json.dumps(content.attributes))


def in_batches(items: Iterable[T], weight: Callable[[T], int]) -> Iterator[list[T]]:
    """The items in their order, in batches that SQS takes in one call."""
    batch: list[T] = []
    size = 0
    for item in items:
        heavy = weight(item)
        if batch and (len(batch) == MAX_BATCH or size + heavy > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += heavy
    if batch:
        yield batch
