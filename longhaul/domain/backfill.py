"""A backfill: many requests that differ in one value, and are one thing to people. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Backfill:
    """What is known of a backfill.

    Attributes:
        key: `stage#NAME`, as a job of that id would have it.
        values: The parts of its jobs' ids behind the name, of those that were sent, in order.
        unsent: How many jobs the last command had still to send.
    """

    key: str
    values: tuple[str, ...]
    unsent: int

    @property
    def stage(self) -> str:
        return self.key.partition("#")[0]

    @property
    def name(self) -> str:
        return self.key.partition("#")[2]

    def job_keys(self) -> Iterator[str]:
        return (f"{self.key}/{value}" for value in self.values)
