"""What a job between two attempts waits for, and until when. Pure.

In this order: its stage is paused; the time at which it is to begin; its back-off, or the end of a
task that may still run; one of the stage's slots; its message.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

from longhaul.domain.lease import Lease, State
from longhaul.domain.pace import SlotUse
from longhaul.settings import LeaseSettings


@dataclass(frozen=True)
class Wait:
    """One wait.

    `until`: when it is over at the latest; None for a pause, which a person ends, and for a slot,
    which another job gives back. `since`: of a pause. `place`: of a job that waits for a slot,
    from 1, among `others` of its stage that wait for one between two attempts; 0 where there are
    too many to read.
    """

    what: Literal["pause", "start", "back-off", "slot", "message"]
    until: datetime | None = None
    since: datetime | None = None
    place: int = 0
    others: int = 0
    slots: int = 0


@dataclass(frozen=True)
class Waits:
    """The waits of the jobs of some stages at one moment.

    `uses`: slots by stage; of a stage that is not there it is not known whether one is free.
    `rows`: those of all jobs between two attempts; None where there are too many to read.
    """

    now: datetime
    timing: LeaseSettings
    uses: Mapping[str, SlotUse] = field(default_factory=dict)
    rows: Sequence[Lease] | None = ()

    @property
    def look_within(self) -> timedelta:
        """The longest time for which a message that waits for a slot is hidden."""
        return timedelta(seconds=self.timing.defer_max_s)

    def of(self, row: Lease) -> Wait | None:
        """None for a job that is not between two attempts."""
        if row.state is not State.RELEASED or row.is_mark:
            return None
        use = self.uses.get(row.stage)
        if use is not None and use.paused_at is not None:
            return Wait("pause", since=use.paused_at)
        if row.retry_at is not None and self.now < row.retry_at:
            return Wait("start" if row.is_planned else "back-off", until=row.retry_at)
        if use is not None and use.running >= use.slots:
            if self.rows is None:
                return Wait("slot", slots=use.slots)
            due, turn = self._due.get(row.stage, []), _turn(row)
            ahead = bisect_left(due, turn)
            is_among = due[ahead : ahead + 1] == [turn]
            return Wait("slot", place=ahead + 1, others=len(due) - is_among, slots=use.slots)
        # A message that is lost is replaced by then, see `Sweeper`.
        missing_after = timedelta(seconds=self.timing.missing_after_s)
        return Wait("message", until=self.now - row.unseen_for(self.now) + missing_after)

    @cached_property
    def _due(self) -> Mapping[str, Sequence[tuple[datetime, str]]]:
        """The turns, in order, of the jobs that may start as far as their back-off goes."""
        turns: dict[str, list[tuple[datetime, str]]] = {}
        for row in self.rows or ():
            is_due = row.retry_at is None or row.retry_at <= self.now
            if row.state is State.RELEASED and not row.is_mark and is_due:
                turns.setdefault(row.stage, []).append(_turn(row))
        return {stage: sorted(each) for stage, each in turns.items()}


def queued(use: SlotUse) -> Wait:
    """What the queued jobs of a stage wait for: that it goes on, a slot, or their messages."""
    if use.paused_at is not None:
        return Wait("pause", since=use.paused_at)
    if use.running >= use.slots:
        return Wait("slot", slots=use.slots)
    return Wait("message")


def _turn(row: Lease) -> tuple[datetime, str]:
    """Retries are claimed in the order in which their back-offs passed."""
    return row.retry_at or row.attempt.claimed_at, row.key
