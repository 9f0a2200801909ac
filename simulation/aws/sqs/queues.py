"""Queues of the SQS fake: messages, ordered by the time at which each becomes visible.

The effect of a receipt handle, valid or stale.

A handle holds its message from its receive until the visibility timeout ends or the message is
received again. Then it is stale. AWS does not say what a stale handle does on a standard queue, and
all three have been seen: it `work`s, SQS returns 200 and `ignore`s it, or the call `fail`s.
"""

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Literal

from simulation.aws.service import ACCOUNT, REGION, Answer, RefusedError, known

MAX_ATTRIBUTES = 10
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GROUP = re.compile(r"[!-~]{1,128}")
HOUR_S = 3600
MAX_VISIBILITY_S = 12 * HOUR_S
MIB = 1_048_576

DEFAULTS: dict[str, int] = {
    "VisibilityTimeout": 30,
    "MessageRetentionPeriod": 4 * 24 * HOUR_S,
    "MaximumMessageSize": MIB,
    "DelaySeconds": 0,
    "ReceiveMessageWaitTimeSeconds": 0,
}


@dataclass(eq=False)
class Message:
    """Times are epoch seconds."""

    id: str
    body: str
    attributes: Mapping[str, Mapping[str, Any]]
    group_id: str | None
    sent_at: float
    shows_at: float
    receipt_handle: str = ""  # of the newest receive
    received_at: float = 0  # time of the newest receive
    first_received_at: float = 0
    receive_count: int = 0
    source_arn: str | None = None  # the queue that native redrive took it from
    deleted: bool = False
    shown: int = 0  # number of its valid entry among the times at which messages become visible

    def is_in_flight(self, now: float) -> bool:
        return self.receive_count > 0 and self.shows_at > now and not self.deleted


@dataclass(eq=False)
class Queue:
    name: str
    numbers: dict[str, int]
    dead_letter_arn: str | None = None
    max_receive_count: int = 0
    messages: dict[str, Message] = field(default_factory=dict)
    deleted: dict[str, Message] = field(default_factory=dict)
    by_handle: dict[str, Message] = field(default_factory=dict)
    purged_at: float | None = None
    _again: deque[Message] = field(default_factory=deque)
    _showing: list[tuple[float, int, Message]] = field(default_factory=list)
    _pushed: int = 0

    @property
    def url(self) -> str:
        return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{self.name}"

    @property
    def arn(self) -> str:
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name}"

    def add(self, message: Message, shows_at: float) -> None:
        self.messages[message.id] = message
        self.show(message, shows_at)

    def show(self, message: Message, at: float) -> None:
        """Make the message visible from `at` on."""
        message.shows_at = at
        self._pushed += 1
        message.shown = self._pushed
        heappush(self._showing, (at, self._pushed, message))

    def visible(self, now: float) -> Iterator[Message]:
        """Messages that may be received now, longest waiting first.

        The caller must hide, move or show again each one that it takes; the rest stays.
        """
        while self._again:
            message = self._again.popleft()
            message.deleted = False
            self.messages[message.id] = message
            self.deleted.pop(message.id, None)
            yield message
        while self._showing and self._showing[0][0] <= now:
            _, pushed, message = heappop(self._showing)
            if self._is_stale(pushed, message):
                continue
            if now - message.sent_at >= self.numbers["MessageRetentionPeriod"]:
                self.remove(message)
            else:
                yield message

    def shows_next_at(self) -> float | None:
        """When the next message becomes visible, possibly in the past; None without messages."""
        if self._again:
            return 0.0
        while self._showing and self._is_stale(*self._showing[0][1:]):
            heappop(self._showing)
        return self._showing[0][0] if self._showing else None

    def expire(self, now: float) -> None:
        """Remove messages at the end of their retention, in flight or not."""
        while self.messages:
            oldest = next(iter(self.messages.values()))  # in the order of arrival
            if now - oldest.sent_at < self.numbers["MessageRetentionPeriod"]:
                return
            self.remove(oldest)

    def _is_stale(self, pushed: int, message: Message) -> bool:
        """Whether the message was hidden, deleted or moved after this entry."""
        return (
            message.shown != pushed
            or message.deleted
            or self.messages.get(message.id) is not message
        )

    def remove(self, message: Message) -> None:
        """Delete the message, but keep it: a copy of it may still be delivered."""
        message.deleted = True
        if self.messages.pop(message.id, None):
            self.deleted[message.id] = message

    def bring_back(self, message_id: str) -> None:
        """Deliver the message again at the next receive, even if it is in flight or deleted."""
        self._again.append(self.messages.get(message_id) or self.deleted[message_id])

    def held_by(self, handle: str) -> Message | None:
        """The message of a handle, also of an old one; None when the message has left the queue.

        Raises:
            RefusedError: no receive of this queue returned this handle.
        """
        problem = f'The input receipt handle "{handle}" is not a valid receipt handle.'
        message = known(self.by_handle, handle, "ReceiptHandleIsInvalid", problem)
        return None if message.deleted or self.messages.get(message.id) is not message else message


def invalid(message: str) -> RefusedError:
    return RefusedError("InvalidParameterValue", message)


def queue_numbers(attributes: Mapping[str, str]) -> dict[str, int]:
    """The numeric attributes of a queue, with their defaults."""
    numbers = dict(DEFAULTS)
    for name in numbers.keys() & attributes.keys():
        numbers[name] = int(attributes[name])
    return numbers


Stale = Literal["work", "ignore", "fail"]


Policy = Stale | Callable[[], Stale]
"""What a stale handle does: an earlier receive's, or the newest after its time."""


def change_visibility(queue: Queue, handle: str, seconds: int, now: float, policy: Policy) -> None:
    check_visibility(seconds)
    message = queue.held_by(handle)
    if message is None:
        raise _not_available(handle)
    if handle != message.receipt_handle or message.shows_at <= now:
        match _decided(policy):
            case "ignore":
                return
            case "fail" if handle == message.receipt_handle:
                raise RefusedError(
                    "AWS.SimpleQueueService.MessageNotInflight",
                    "The specified message isn't in flight.",
                )
            case "fail":
                raise _not_available(handle)
            case "work":
                pass
    # SQS refuses such a value and does not clamp it: the old timeout stays.
    if now + seconds > message.received_at + MAX_VISIBILITY_S:
        raise invalid(
            f"Value {seconds} for parameter VisibilityTimeout is invalid. Reason: Total"
            " VisibilityTimeout for the message is beyond the limit"
            f" [{MAX_VISIBILITY_S} seconds]"
        )
    queue.show(message, now + seconds)


def delete_held(queue: Queue, handle: str, policy: Policy) -> None:
    """Delete a message by any handle of its receives; a stale one may have no effect.

    The newest handle deletes even after its visibility timeout.
    """
    message = queue.held_by(handle)
    if message is None:
        return
    if handle == message.receipt_handle or _decided(policy) == "work":
        queue.remove(message)


def check_visibility(seconds: int) -> None:
    if not 0 <= seconds <= MAX_VISIBILITY_S:
        raise invalid(
            f"Value {seconds} for parameter VisibilityTimeout is invalid."
            f" Reason: Must be between 0 and {MAX_VISIBILITY_S}, if provided."
        )


def _decided(policy: Policy) -> Stale:
    return policy() if callable(policy) else policy


def _not_available(handle: str) -> RefusedError:
    return invalid(
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: Message does not exist or"
        " is not available for visibility timeout change."
    )


def size_of(body: str, attributes: Mapping[str, Mapping[str, Any]]) -> int:
    """The size of a message in bytes."""
    return _bytes(body) + sum(
        _bytes(name)
        + _bytes(value["DataType"])
        + _bytes(value.get("StringValue") or value.get("BinaryValue") or "")
        for name, value in attributes.items()
    )


def _bytes(text: str | bytes) -> int:
    return len(text.encode()) if isinstance(text, str) and not text.isascii() else len(text)


def check_message(
    queue: Queue,
    body: str,
    attributes: Mapping[str, Mapping[str, Any]],
    delay_s: int,
    group_id: str | None,
) -> None:
    """Raise what SQS raises for an invalid message."""
    if not body:
        raise RefusedError(
            "MissingParameter", "The request must contain the parameter MessageBody."
        )
    if _NOT_XML.search(body):
        raise RefusedError(
            "InvalidMessageContents", "Invalid binary character was found in the message body."
        )
    if len(attributes) > MAX_ATTRIBUTES:
        raise invalid(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum"
            f" [{MAX_ATTRIBUTES}]."
        )
    for name, value in attributes.items():
        if not (value.get("StringValue") or value.get("BinaryValue")):
            raise invalid(f"Message (user) attribute '{name}' must contain a non-empty value.")
    if size_of(body, attributes) > queue.numbers["MaximumMessageSize"]:
        limit = queue.numbers["MaximumMessageSize"]
        raise invalid(
            "One or more parameters are invalid."
            f" Reason: Message must be shorter than {limit} bytes."
        )
    if not 0 <= delay_s <= 900:
        raise invalid(
            f"Value {delay_s} for parameter DelaySeconds is invalid."
            " Reason: DelaySeconds must be >= 0 and <= 900."
        )
    if group_id is not None and not _GROUP.fullmatch(group_id):
        raise invalid(
            f"Value {group_id} for parameter MessageGroupId is invalid. Reason: MessageGroupId can"
            " only include alphanumeric and punctuation characters. 1 to 128 in length."
        )


def md5(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()


def shown(
    message: Message, receive_count: int, system_names: Sequence[str], names: Sequence[str]
) -> Answer:
    """A received message with the requested attributes; its receive count is approximate."""
    answer: Answer = {
        "MessageId": message.id,
        "ReceiptHandle": message.receipt_handle,
        "MD5OfBody": md5(message.body),
        "Body": message.body,
    }
    system = {
        "SenderId": "AIDAEXAMPLE",
        "SentTimestamp": str(round(message.sent_at * 1000)),
        "ApproximateReceiveCount": str(receive_count),
        "ApproximateFirstReceiveTimestamp": str(round(message.first_received_at * 1000)),
    }
    if message.group_id:
        system["MessageGroupId"] = message.group_id
    if message.source_arn:
        system["DeadLetterQueueSourceArn"] = message.source_arn
    if wanted := {
        name: value
        for name, value in system.items()
        if "All" in system_names or name in system_names
    }:
        answer["Attributes"] = wanted
    if asked := {
        name: dict(value) for name, value in message.attributes.items() if _is_asked(name, names)
    }:
        answer["MessageAttributes"] = asked
    return answer


def _is_asked(name: str, asked: Sequence[str]) -> bool:
    return any(
        each in (name, "All", ".*") or (each.endswith(".*") and name.startswith(each[:-1]))
        for each in asked
    )
