"""Queues of the SQS fake: messages, ordered by the time at which each becomes visible."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from simulation.aws.service import ACCOUNT, REGION, Answer, RefusedError

HOUR_S = 3600
MAX_VISIBILITY_S = 12 * HOUR_S
MAX_WAIT_S = 20
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
    "ReceiveMessageWaitTimeSeconds": (0, MAX_WAIT_S),
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

    def has_attributes_of(self, other: "Queue") -> bool:
        return (self.numbers, self.dead_letter_arn, self.max_receive_count) == (
            other.numbers,
            other.dead_letter_arn,
            other.max_receive_count,
        )

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

    def in_flight(self, now: float) -> int:
        return sum(message.is_in_flight(now) for message in self.messages.values())

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
        if handle not in self.by_handle:
            raise RefusedError(
                "ReceiptHandleIsInvalid",
                f'The input receipt handle "{handle}" is not a valid receipt handle.',
            )
        message = self.by_handle[handle]
        return None if message.deleted or self.messages.get(message.id) is not message else message


@dataclass(eq=False)
class MoveTask:
    """Redrive of a dead-letter queue."""

    handle: str
    source_arn: str
    destination_arn: str | None
    status: str
    moved: int
    failure: str | None
    started_at: float

    def described(self) -> Answer:
        """As ListMessageMoveTasks shows it."""
        optional = {"DestinationArn": self.destination_arn, "FailureReason": self.failure}
        return {
            "Status": self.status,
            "SourceArn": self.source_arn,
            "ApproximateNumberOfMessagesMoved": self.moved,
            "StartedTimestamp": round(self.started_at * 1000),
            **{name: value for name, value in optional.items() if value is not None},
        }


def invalid(message: str) -> RefusedError:
    return RefusedError("InvalidParameterValue", message)


def queue_numbers(attributes: Mapping[str, str]) -> dict[str, int]:
    """The numeric attributes of a queue, with their defaults."""
    numbers = dict(DEFAULTS)
    for name in numbers.keys() & attributes.keys():
        low, high = _RANGES[name]
        numbers[name] = int(attributes[name])
        if not low <= numbers[name] <= high:
            raise RefusedError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
    return numbers
