"""A backfill: many requests that differ in one value, and are one thing to people. Pure.

And how all of it has ended, or the tree of one job.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from longhaul.core.descent import TreeWatch
from longhaul.core.lease import Lease, job_key

MAX_UNWELL: Final = 20
"""Jobs that a notice names: of thousands that died the first ones say why."""


@dataclass(frozen=True)
class Backfill:
    """What is known of a backfill.

    Attributes:
        key: `stage#NAME`, as a job of that id would have it.
        values: The parts of its jobs' ids behind the name, of those that were sent, in order.
        left: The same of those that commands have still to send, also interrupted ones.
        again: When a job was sent again that had ended; until its end is told.
        began_at: When a command last began to send.
        cancelled_at: When somebody cancelled it last.
        watch: Whether its end is still to be told; None where that was never asked for.
    """

    key: str
    values: tuple[str, ...]
    left: tuple[str, ...] = ()
    again: Mapping[str, datetime] = field(default_factory=dict)
    began_at: datetime | None = None
    cancelled_at: datetime | None = None
    watch: TreeWatch | None = None

    def is_cancelled_since(self, began_at: datetime | None) -> bool:
        """Whether somebody has cancelled it since a command began."""
        return self.cancelled_at is not None and (began_at is None or self.cancelled_at >= began_at)

    @property
    def unsent(self) -> int:
        """How many jobs are still to be sent, or were when it was cancelled."""
        return len(self.left)

    @property
    def is_sending(self) -> bool:
        """Whether jobs of it are still to come: also where its command was interrupted."""
        return bool(self.left) and not self.is_cancelled_since(self.began_at)

    @property
    def is_watched(self) -> bool:
        """Whether its end is still to be told."""
        return self.watch is not None and self.watch.is_due

    @property
    def stage(self) -> str:
        return self.key.partition("#")[0]

    @property
    def name(self) -> str:
        return self.key.partition("#")[2]

    def job_keys(self) -> Iterator[str]:
        return (f"{self.key}/{value}" for value in self.values)


def backfill_of(row: Lease) -> str | None:
    """Key of the backfill that a job belongs to, as the id of its root and its tag say."""
    key = may_be_of(row.root)
    is_named = key is not None and row.tags.get("backfill") == key.partition("#")[2]
    return key if is_named else None


def may_be_of(key: str) -> str | None:
    """Key of the backfill that may have sent the job of a key; other ids have a slash, too."""
    stage, _, job_id = key.partition("#")
    name = job_id.rpartition("/")[0]
    return job_key(stage, name) if name else None


class Backfills(Protocol):
    """Which jobs each backfill has sent."""

    def note_begun(
        self,
        key: str,
        left: Iterable[str],
        now: datetime,
        began_at: datetime,
        stale: Mapping[str, datetime] = ...,
    ) -> bool:
        """Note what a command will send, before it does: values, one at least; repeatable.

        `stale`: what is known of those of them that were sent again before, which goes.

        It joins what other commands have left, but not what a cancel has ended. False, with nothing
        noted, if the backfill was cancelled since the command began.
        """

    def note_sent(
        self,
        key: str,
        values: Iterable[str],
        now: datetime,
        again: Mapping[str, datetime] = ...,
        *,
        watches: bool = False,
    ) -> None:
        """Note the values of jobs that were sent, one at least; repeatable.

        Args:
            key: Of the backfill.
            values: Those of its jobs' ids.
            now: The time.
            again: When those of them were sent that had ended before.
            watches: Whether its end is to be told, once more where it was.
        """

    def watch_again(self, key: str, job: str, now: datetime) -> None:
        """Have the end of a backfill told again, if it has sent the job of that key."""

    def note_look(self, key: str, before: TreeWatch, after: TreeWatch) -> bool:
        """Note what a look at a watched backfill has found.

        False, with nothing noted, if it may have ended again since, or its end was told.
        """

    def note_cancel(self, key: str, now: datetime) -> None:
        """Let commands that have begun send no more jobs of the backfill."""

    def find_backfills(self, keys: Iterable[str]) -> Mapping[str, Backfill]:
        """The backfills of these keys (`stage#NAME`), by key; strongly consistent."""


@dataclass(frozen=True)
class Unwell:
    """A job of a tree that ended otherwise than well."""

    stage: str
    job_id: str
    label: str | None
    state: str
    kind: str | None


@dataclass(frozen=True)
class TreeEnd:
    """How a tree has ended.

    Attributes:
        jobs: The number of jobs in each state, by stage.
        unwell: The first of those that died or were cancelled.
        ended_at: The latest end of one of them.
        sequence: Greater than that of each earlier end of the tree: the watch's `ends`.
        digest: The same for the same end, another one for another.
        unsent: Of a backfill: how many jobs it has not sent, because it was cancelled.
    """

    jobs: Mapping[str, Mapping[str, int]]
    unwell: tuple[Unwell, ...]
    ended_at: datetime
    sequence: int
    digest: str
    unsent: int = 0

    @property
    def outcome(self) -> str:
        """`SUCCEEDED` if all has, `DEAD` if a job of it is, else `CANCELLED`."""
        states = {state for each in self.jobs.values() for state in each}
        states |= {"CANCELLED"} if self.unsent else set()
        return next((each for each in ("DEAD", "CANCELLED") if each in states), "SUCCEEDED")
