"""When the end of a tree is to be told, and what is told of it. Pure.

The row of a tree's first job, its root, has a watch while the tree may still end. So a sweep finds
it, and what ends again later begins it again. Decision 0027 says why so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

BACKFILL: Final = "BACKFILL"
"""Why a backfill is in the index of what is unfinished: its end is still to be told."""

MAX_UNWELL: Final = 20
"""Jobs that a notice names: of thousands that died the first ones say why."""


@dataclass(frozen=True)
class TreeWatch:
    """What the row of a root knows of its tree.

    Attributes:
        ends: How often the tree may have ended: the root's success is the first time, and each job
            of it that may have ended before raises it when it ends again.
        told: `ends` when an end was told last.
        waits_for: Key of a job of it that went on at the last look.
        stored: As the row has it, which a write compares: a newer version, before a rollback, may
            have written more than this one knows.
    """

    ends: int
    told: int = 0
    waits_for: str | None = None
    stored: str | None = field(default=None, compare=False)

    @property
    def is_due(self) -> bool:
        return self.ends > self.told


def begun(watch: TreeWatch | None) -> TreeWatch:
    """The watch of a root whose tree may end, or end once more."""
    return TreeWatch(watch.ends + 1, watch.told) if watch else TreeWatch(1)


def told(watch: TreeWatch) -> TreeWatch:
    return TreeWatch(watch.ends, told=watch.ends)


def waiting(watch: TreeWatch, key: str) -> TreeWatch:
    """The watch after a look that met an open job."""
    return replace(watch, waits_for=key, stored=None)


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
