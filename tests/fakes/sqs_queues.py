"""Queues of the SQS fake: messages by the time at which they show."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from tests.fakes.service import ACCOUNT, REGION, RefusedError

HOUR_S = 3600
MAX_VISIBILITY_S = 12 * HOUR_S
MAX_IN_FLIGHT = 120_000
MIB = 1_048_576

DEFAULTS: dict[str, int] = {
    "VisibilityTimeout": 30,
    "MessageRetentionPeriod": 4 * 24 * HOUR_S,
    "MaximumMessageSize": MIB,
    "DelaySeconds": 0,
    "ReceiveMessageWaitTimeSeconds": 0,
}
_RANGES = {
    "VisibilityTimeout": (0, MAX_VISIBILITY_S),
    "MessageRetentionPeriod": (60, 14 * 24 * HOUR_S),
    "MaximumMessageSize": (1024, MIB),
    "DelaySeconds": (0, 900),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
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
    received_at: float = 0  # the newest receive
    first_received_at: float = 0
    receive_count: int = 0
    source_arn: str | None = None  # the queue that native redrive took it from
    deleted: bool = False
    shown: int = 0  # which of the queue's entries about when it shows is the one that counts

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
        """Let it be received from `at` on."""
        message.shows_at = at
        self._pushed += 1
        message.shown = self._pushed
        heappush(self._showing, (at, self._pushed, message))

    def visible(self, now: float) -> Iterator[Message]:
        """What may be received now, longest waiting first. Who stops early leaves the rest; each that is taken must be hidden, moved or shown again."""
        while self._again:
            message = self._again.popleft()
            message.deleted = False
            self.messages[message.id] = message
            self.deleted.pop(message.id, None)
            yield message
        while self._showing and self._showing[0][0] <= now:
            _, pushed, message = heappop(self._showing)
            if message.shown != pushed or message.deleted or self.messages.get(message.id) is not message:
                continue  # hidden, deleted or moved since
            if now - message.sent_at >= self.numbers["MessageRetentionPeriod"]:
                self.remove(message)
            else:
                yield message

    def expire(self, now: float) -> None:
        """Forget what has reached the end of its retention, in flight or not. Messages stand in the order in which they came, so only the first are looked at."""
        while self.messages:
            oldest = next(iter(self.messages.values()))
            if now - oldest.sent_at < self.numbers["MessageRetentionPeriod"]:
                return
            self.remove(oldest)

    def in_flight(self, now: float) -> int:
        return sum(message.is_in_flight(now) for message in self.messages.values())

    def remove(self, message: Message) -> None:
        """Deleted, expired or purged: remembered, since a copy of it may still turn up."""
        message.deleted = True
        if self.messages.pop(message.id, None):
            self.deleted[message.id] = message

    def bring_back(self, message_id: str) -> None:
        """A copy of the message turns up: the next receive gets it, in flight or deleted as it may be."""
        self._again.append(self.messages.get(message_id) or self.deleted[message_id])

    def held_by(self, handle: str) -> Message | None:
        """The message of a handle, were it an old one; None when the message is no more here.

        Raises:
            RefusedError: no receive of this queue ever gave this handle.
        """
        if handle not in self.by_handle:
            raise RefusedError(
                "ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not a valid receipt handle.'
            )
        message = self.by_handle[handle]
        return None if message.deleted or self.messages.get(message.id) is not message else message


def invalid(message: str) -> RefusedError:
    return RefusedError("InvalidParameterValue", message)


def queue_numbers(attributes: Mapping[str, str]) -> dict[str, int]:
    """Attributes of a queue that are numbers, with their defaults."""
    numbers = dict(DEFAULTS)
    for name in numbers.keys() & attributes.keys():
        low, high = _RANGES[name]
        numbers[name] = int(attributes[name])
        if not low <= numbers[name] <= high:
            raise RefusedError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
    return numbers
