"""The jobs of a stack at one moment: open ones, and those that ended last."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import islice
from multiprocessing.pool import ThreadPool
from typing import TYPE_CHECKING, Final

from longhaul.core.lease import QUEUED, Lease, State
from longhaul.core.pace import SlotUse
from longhaul.core.settings import Stage
from longhaul.operations.find import Ages
from longhaul.operations.stage_counts import StageCounts, counts_of
from longhaul.operations.view import JobStatus, job_status
from longhaul.operations.wait import Standing

if TYPE_CHECKING:
    from longhaul.operations.stack import Stack

STATES: Final = ("RUNNING", "RELEASED", "CANCELLING", "SUCCEEDED", "DEAD", "CANCELLED")
"""The states that a list shows; a queued job has no row, and no line."""

MAX_SEARCHED: Final = 10_000
"""Ended jobs that a search for a label or tags looks at, the latest first: 100 calls."""

_AT_ONCE: Final = 8  # stages
_ANY_AGE: Final = Ages()


@dataclass(frozen=True)
class Wanted:
    """Which jobs are meant: those that all of it lets through.

    Attributes:
        stage: Empty for all.
        states: As lists show them.
        ages: Since a run began, or a job ended.
        ended_within: For how long ago ended jobs may have ended, in the place of `ages`.
        label: A glob, such as `2026-10-*`.
        tags: A glob for the value of each of these.
        text: A part of an id, a label, a tag (`NAME=VALUE`) or an error, in any case.
    """

    states: Collection[str] = STATES
    ages: Ages = _ANY_AGE
    ended_within: timedelta | None = None
    label: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    stage: str = ""
    text: str = ""

    def is_named(self, row: Lease) -> bool:
        """Whether the job has such a label and every one of the tags."""
        return (self.label is None or fnmatchcase(row.label or "", self.label)) and all(
            name in row.tags and fnmatchcase(row.tags[name], value)
            for name, value in self.tags.items()
        )

    def include(self, row: Lease, now: datetime) -> bool:
        """Whether it lets the job through."""
        return (
            self.stage in ("", row.stage)
            and row.shown_state in self.states
            and self.ages.include(row, now)
            and self.is_named(row)
            and any(self.text.lower() in each.lower() for each in _texts(row))
        )


@dataclass(frozen=True)
class Look:
    """What a look has met.

    Attributes:
        now: Its moment.
        stages: The stages in numbers.
        open: Jobs that run, wait for their next attempt or still owe something; oldest runs first.
        ended: Those that ended, the latest first.
        more: Of which of the two there are more.
    """

    now: datetime
    stages: Sequence[StageCounts]
    open: Sequence[Lease]
    ended: Sequence[Lease]
    more: Sequence[str]

    def choose(self, wanted: Wanted) -> list[Lease]:
        """Those of its jobs that are meant."""
        return [row for row in self.jobs if wanted.include(row, self.now)]

    @property
    def jobs(self) -> Sequence[Lease]:
        return [*self.open, *self.ended]

    @property
    def uses(self) -> Mapping[str, SlotUse]:
        """The slots, by stage."""
        return {each.stage.name: each.slots for each in self.stages}


def look(
    stack: "Stack",
    stages: Sequence[Stage],
    wanted: Wanted,
    most: int,
    known: Mapping[str, Lease] | None = None,
) -> Look:
    """Read the jobs: at most `most` open ones, and as many that ended.

    Rows in `known`, by key, are not read again where the index still has their end.
    """
    now, names = stack.parts.clock.now(), [each.name for each in stages]

    def count(stage: Stage) -> tuple[StageCounts, Sequence[Lease]]:
        rows = stack.jobs.unfinished([stage.name])
        return counts_of(stack, stage, len(rows)), rows

    # Not concurrent.futures, whose threads are no daemons: Ctrl-C would wait for AWS.
    with ThreadPool(_AT_ONCE) as pool:
        counted = pool.map(count, stages)
    unfinished = [row for _, rows in counted for row in rows if wanted.include(row, now)]
    unfinished.sort(key=lambda row: (row.state.is_terminal, row.run, row.key))
    states = [each for each in State if each.value in wanted.states]
    ages = Ages(newer_than=wanted.ended_within) if wanted.ended_within else wanted.ages
    rows = stack.jobs.ended(names, states, ages, known)
    has_names = wanted.label is not None or wanted.tags
    searched = islice(rows, MAX_SEARCHED if has_names else None)
    ended = list(islice(filter(wanted.is_named, searched), most + 1))
    found = {"open": unfinished, "ended": ended}
    more = [name for name, rows in found.items() if len(rows) > most]
    return Look(now, [each for each, _ in counted], unfinished[:most], ended[:most], more)


def status_of(stack: "Stack", row: Lease, uses: Mapping[str, SlotUse] | None = None) -> JobStatus:
    """How a job stands; `uses`: the slots of its stage, where they are known."""
    now = stack.parts.clock.now()
    return job_status(row, stack.settings, stack.parts.executions, now, uses or {})


def status_in(stack: "Stack", standing: Standing) -> JobStatus:
    """How a job stands that is waited for, also while no row is about it."""
    if standing.lease is not None:
        return status_of(stack, standing.lease)
    stage, _, job_id = standing.key.partition("#")
    return JobStatus(job_id=job_id, stage=stage, state="CANCELLED" if standing.done else QUEUED)


def _texts(row: Lease) -> Sequence[str]:
    tags = (f"{name}={value}" for name, value in row.tags.items())
    return (row.job_id, row.label or "", row.last_class or "", row.last_error or "", *tags)
