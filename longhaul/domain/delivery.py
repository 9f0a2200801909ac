"""One delivery of a message: read as the request of a job, under the key that its lease has. Pure."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from longhaul.domain import attributes
from longhaul.domain.lease import Message, job_key, request_ref
from longhaul.domain.message import MessageContent
from longhaul.domain.request import parse_job_id, parse_request
from longhaul.settings import RuntimeSettings, Stage


@dataclass(frozen=True)
class Delivery:
    """One record of a batch, as the mapping handed it over."""

    message_id: str
    receipt_handle: str
    receive_count: int
    sent_at: datetime
    content: MessageContent


@dataclass(frozen=True)
class Accepted:
    """A delivery with a valid request. `content` is what the producer sent, without attributes of ours."""

    message: Message
    content: MessageContent


def accept(delivery: Delivery, settings: RuntimeSettings, stage: Stage, now: datetime) -> Accepted:
    """The delivery with its request.

    Raises:
        InvalidRequestError: it can never run; `problems` says why.
    """
    given = delivery.content.attributes
    request = parse_request(delivery.content.body, settings, stage)
    attribute = attributes.value_of(given, attributes.JOB_ID)
    job_id = request.job_id or (parse_job_id(attribute) if attribute is not None else delivery.message_id)
    key = job_key(stage.name, job_id)
    message = Message(
        message_id=delivery.message_id,
        receipt_handle=delivery.receipt_handle,
        receive_count=delivery.receive_count,
        received_at=now,  # the record does not say: a little late, for which the visibility cap has its margin
        sent_at=delivery.sent_at,
        first_sent_at=_first_sent_at(delivery),
        request=request,
        key=key,
        request_ref=request_ref(key, delivery.message_id),
        renews=attributes.value_of(given, attributes.RENEWS),
    )
    return Accepted(message, replace(delivery.content, attributes=attributes.theirs_of(given)))


def _first_sent_at(delivery: Delivery) -> datetime:
    """When the job's first message was sent; a copy carries it along."""
    carried = attributes.value_of(delivery.content.attributes, attributes.FIRST_SENT)
    if carried is None or not carried.isdecimal():
        return delivery.sent_at
    # Whoever may send may write anything here: compared as numbers, because not every number is a date.
    return datetime.fromtimestamp(min(int(carried[:15]) / 1000, delivery.sent_at.timestamp()), UTC)
