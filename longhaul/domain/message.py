"""What a producer sent, apart from any one delivery of it."""

from dataclasses import dataclass
from datetime import datetime

from longhaul.domain import attributes
from longhaul.domain.attributes import Attributes


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
