"""Messages: what is sent, what came, and the job that it asks for. Pure.

SQS takes ten attributes on one message. A copy of a message gets up to four of ours, so a job's
message may have six of the producer's. So nothing is lost, however often it is renewed,
dead-lettered or redriven.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from longhaul.core.errors import InvalidRequestError
from longhaul.core.lease import Receive, job_key, request_ref
from longhaul.core.request import JobRequest, parse_job_id, read_request
from longhaul.core.settings import LeaseSettings, PathPolicy, Stage

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

MAX_ATTRIBUTES = 10
MAX_THEIRS = 6

_OURS = frozenset({FIRST_SENT, RENEWS, AGAIN, EXPLANATION})


def text(value: str) -> dict[str, Any]:
    return {"dataType": "String", "stringValue": value}


def value_of(attributes: Attributes, name: str) -> str | None:
    """The text of an attribute; None when it is absent or binary."""
    value = attributes.get(name, {}).get("stringValue")
    return value if isinstance(value, str) else None


def with_ours(theirs: Attributes, ours: Mapping[str, str]) -> Attributes:
    """The producer's attributes and ours, at most ten of them; ours win a clash of names.

    Of a message that is refused, and has more than `MAX_THEIRS`, the last ones may be left out.
    """
    kept = [(name, value) for name, value in theirs.items() if name not in ours]
    added = {name: text(value) for name, value in ours.items()}
    return {**dict(kept[: MAX_ATTRIBUTES - len(added)]), **added}


def theirs_of(attributes: Attributes) -> Attributes:
    """The producer's attributes of a message that may have been through `with_ours`."""
    return {name: value for name, value in attributes.items() if name not in _OURS}


MAX_BATCH = 10
MAX_BATCH_BYTES = 1_048_576
"""SQS's limits of one call: messages, and bytes of all of them together."""

_MAX_MESSAGE_ID = 100  # Source: AWS, "Amazon SQS queue and message identifiers"

MAX_DEAD_LETTER_BYTES = 1_048_576
MAX_JOB_BYTES = MAX_DEAD_LETTER_BYTES - 16 * 1024
"""The limits of the queues, attributes included.

A dead letter is a message, the reason (attribute `longhaul`, at most 8 KiB) and the job's id.
"""

_MAX_EXPLANATION = "x" * 8_192
_MAX_JOB_ID = "x" * 128
_MAX_RUN_DIGITS = 15
_ONLY = "only"
_EPOCH = datetime.fromtimestamp(0, UTC)

T = TypeVar("T")


@dataclass(frozen=True)
class Message:
    """A message to send. `group_id` is the fair queue's message group: the tenant."""

    body: str
    attributes: Attributes
    group_id: str | None = None


@dataclass(frozen=True)
class Delivery:
    """One receive of a message: a record of the mapping's batch."""

    message_id: str
    receipt_handle: str
    receive_count: int
    sent_at: datetime
    content: Message
    sender: str | None = None  # as SQS names it: an IAM user, or a role with its session


@dataclass(frozen=True)
class Again:
    """That an ended job is to run again: the run that the new one replaces.

    `only`: nothing follows from the new run.
    """

    run: int
    only: bool = False

    @classmethod
    def read(cls, text: str | None) -> "Again | None":
        """Of an attribute. Untrusted input: another text says nothing."""
        run, _, only = (text or "").partition("/")
        if not (run.isascii() and run.isdecimal() and len(run) <= _MAX_RUN_DIGITS):
            return None
        return cls(int(run), only == _ONLY)

    def __str__(self) -> str:
        return f"{self.run}/{_ONLY}" if self.only else str(self.run)


@dataclass(frozen=True)
class JobMessage:
    """One receive of a message that holds a request, and the job that it asks for."""

    message_id: str
    receipt_handle: str
    receive_count: int
    received_at: datetime
    sent_at: datetime  # of this message: SQS's retention counts from here
    # When the work was asked for: earlier on a copy, and on a follow-on.
    first_sent_at: datetime
    content: Message  # what the producer sent, without attributes of ours
    request: JobRequest
    key: str
    renews: str | None = None  # of a copy: id of the first message of its chain
    is_follow_on: bool = False  # sent because another job succeeded
    again: Again | None = None  # of one that is sent to run an ended job again
    sender: str | None = None  # of a message that no copy and no follow-on is

    @property
    def chain(self) -> str:
        """Id of its chain's first message: the same for a message and all its copies."""
        return self.renews or self.message_id

    @property
    def request_ref(self) -> str:
        return request_ref(self.key, self.message_id)

    def wears_out(self, timing: LeaseSettings, now: datetime) -> bool:
        """Whether SQS will soon drop this message: too many receives, or too old."""
        return (
            self.receive_count >= timing.renew_receives
            or (now - self.sent_at).total_seconds() >= timing.renew_age_s
        )

    def comes_rarely(self, timing: LeaseSettings, now: datetime) -> bool:
        """Whether receives are so far apart that its renewal may come too late.

        SQS keeps it for as long again as it waits for its renewal. Seven receives in that time
        leave people some days.
        """
        age_s = (now - self.sent_at).total_seconds()
        return age_s / max(1, self.receive_count) >= timing.renew_age_s / 7


def read(
    delivery: Delivery, stage: Stage, now: datetime, paths: PathPolicy | None = None
) -> JobMessage:
    """The job that a delivery asks for. `paths` has what `data:` and `table:` in it mean.

    Raises:
        InvalidRequestError: its body is no request; `problems` says why.
    """
    given = delivery.content.attributes
    renews = value_of(given, RENEWS)
    if renews and len(renews) > _MAX_MESSAGE_ID:  # untrusted input: it goes into the row
        renews = None
    request = read_request(delivery.content.body, paths)
    attribute = value_of(given, JOB_ID)
    job_id = request.job_id or (
        parse_job_id(attribute) if attribute is not None else delivery.message_id
    )
    # The attribute alone proves nothing: anybody may send one of that name.
    is_follow_on = renews is None and FIRST_SENT in given and request.lineage is not None
    return JobMessage(
        message_id=delivery.message_id,
        receipt_handle=delivery.receipt_handle,
        receive_count=delivery.receive_count,
        # The record has no time of its receive: this is a little late, and the visibility cap has a
        # margin for it.
        received_at=now,
        sent_at=delivery.sent_at,
        first_sent_at=_first_sent_at(delivery),
        content=Message(delivery.content.body, theirs_of(given), delivery.content.group_id),
        request=request,
        key=job_key(stage.name, job_id),
        renews=renews,
        is_follow_on=is_follow_on,
        again=Again.read(value_of(given, AGAIN)),
        sender=None if renews or is_follow_on else delivery.sender,
    )


def id_of(delivery: Delivery) -> str:
    """The job's id in a delivery that may be no request: else that of its message."""
    found = id_in(delivery.content.body)
    attribute = value_of(delivery.content.attributes, JOB_ID)
    try:
        return found or parse_job_id(attribute or delivery.message_id)
    except InvalidRequestError:
        return delivery.message_id


def id_in(body: str) -> str | None:
    """The job id in a body that may be no request."""
    try:
        document = json.loads(body)
        return parse_job_id(document["job_id"])
    except (ValueError, RecursionError, TypeError, KeyError, InvalidRequestError):
        return None


def receive_of(delivery: Delivery) -> Receive:
    """The receive of a delivery that is no request."""
    return Receive(
        delivery.message_id,
        receipt_handle=delivery.receipt_handle,
        receive_count=delivery.receive_count,
        sent_at=delivery.sent_at,
        first_sent_at=delivery.sent_at,
        sender=delivery.sender,
    )


def _first_sent_at(delivery: Delivery) -> datetime:
    """When the work was asked for: copies, follow-ons and firings carry that time."""
    carried = value_of(delivery.content.attributes, FIRST_SENT) or ""
    try:
        asked_at = datetime.fromisoformat(carried).astimezone(UTC)
    except (ValueError, OverflowError):  # untrusted input, or absent
        return delivery.sent_at
    return min(max(asked_at, _EPOCH), delivery.sent_at)


def renewal(
    content: Message,
    chain: str,
    key: str,
    first_sent_at: datetime,
    again: Again | None = None,
) -> Message:
    """The copy that replaces a message before SQS drops it: at 1000 receives, or for its age."""
    ours = {
        **({AGAIN: str(again)} if again else {}),
        JOB_ID: key.partition("#")[2],
        FIRST_SENT: first_sent_at.isoformat(),
        RENEWS: chain,
    }
    return Message(content.body, with_ours(content.attributes, ours), content.group_id)


def follow_on(body: str, parent_ended_at: datetime, group_id: str | None) -> Message:
    """A job that follows from a success: as old as that, however late or often it is sent."""
    ours = {FIRST_SENT: parent_ended_at.isoformat()}
    return Message(body, with_ours({}, ours), group_id)


def size_problem(content: Message, max_bytes: int = MAX_JOB_BYTES) -> str | None:
    """Why this message could not be renewed or dead-lettered, in a sentence; None when it could.

    Such a message must not start a run: SQS would drop it at the end of its retention, and the job
    with it. `max_bytes` is the jobs queue's limit.
    """
    if (theirs := len(content.attributes.keys() - {JOB_ID})) > MAX_THEIRS:
        return (
            f"the message has {theirs} attributes of its own, and may have {MAX_THEIRS}: a copy of"
            " it gets up to four more, and SQS takes ten. Put the others into params"
        )
    renewed = with_ours(
        content.attributes,
        {
            JOB_ID: _MAX_JOB_ID,
            FIRST_SENT: _EPOCH.replace(microsecond=1).isoformat(),
            RENEWS: "x" * _MAX_MESSAGE_ID,
            AGAIN: f"{'0' * _MAX_RUN_DIGITS}/{_ONLY}",
        },
    )
    dead = with_ours(
        content.attributes,
        {EXPLANATION: _MAX_EXPLANATION, JOB_ID: _MAX_JOB_ID},
    )
    beyond = max(
        size_of(replace(content, attributes=renewed)) - max_bytes,
        size_of(replace(content, attributes=dead)) - MAX_DEAD_LETTER_BYTES,
    )
    if beyond <= 0:
        return None
    return (
        f"the message is {beyond:,} bytes too long: with the attributes that a copy of it gets, it "
        f"must fit into the queue's {max_bytes:,} bytes. Put what is large into an object on S3, "
        "and name that as an input or in params"
    )


def require_room(content: Message) -> None:
    """Raises InvalidRequestError for a message that could not be renewed or dead-lettered."""
    if problem := size_problem(content):
        raise InvalidRequestError([problem])


def size_of(message: Message) -> int:
    """Bytes as SQS counts them: the body, and of each attribute its name, type and value."""
    return len(message.body.encode()) + sum(
        len(name.encode()) + len(value["dataType"].encode()) + _value_size(value)
        for name, value in message.attributes.items()
    )


def _value_size(value: Mapping[str, Any]) -> int:
    if isinstance(binary := value.get("binaryValue"), str):
        return len(binary) // 4 * 3
    return len((value.get("stringValue") or "").encode())


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
