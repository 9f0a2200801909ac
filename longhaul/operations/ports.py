"""What the operations need from AWS beside the engine's ports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from longhaul.operations.letter import DeadLetter


class DeadLetters(Protocol):
    """A dead-letter queue, as people use it."""

    def waiting(self, queue_url: str) -> int:
        """About how many letters are there."""

    def receive(self, queue_url: str, hold_s: int) -> Sequence[DeadLetter]:
        """Some of them, invisible to others for `hold_s`; empty when there are no more."""

    def release(self, queue_url: str, receipt_handles: Sequence[str]) -> None:
        """Make them visible again."""

    def delete(self, queue_url: str, receipt_handle: str) -> bool:
        """False when the handle no longer holds the letter."""


@dataclass(frozen=True)
class LogEvent:
    at: datetime
    text: str


class JobLogs(Protocol):
    def find_stream(
        self, group: str, phrase: str, matches: Callable[[str], bool], since: datetime
    ) -> str | None:
        """The stream of the first event that holds `phrase` and matches.

        Searches the whole group from `since` on.
        """

    def read(
        self, group: str, stream: str, token: str | None
    ) -> tuple[Sequence[LogEvent], str | None]:
        """A page of a stream from its head, and the token of what follows.

        The same token again when there is nothing new. No token: no such stream yet.
        """

    def tail(self, group: str, stream: str, count: int) -> Sequence[LogEvent]:
        """The last lines of a stream, in their order; at most `count`."""
