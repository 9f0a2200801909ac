"""How fast a stage takes jobs, and when a message that waits for a slot is looked at again. Pure.

A message without a slot is hidden for a part of the time that it is likely to wait, and nothing
runs meanwhile. As with beats, the wait is in proportion: a slot stays free for a twentieth of the
time that a job in its stage waits, at most.

    likely wait = messages that wait x gap between two claims of the stage

A job waits in this order: its stage is paused; the time at which it is to
begin; its back-off, or the end of a task that may still run; one of the stage's slots; its message.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, floor

from longhaul.core.settings import LeaseSettings

LOOKS = 20
"""Looks at a message during its likely wait, if none came early."""

_SMOOTHING = 20
"""Claims over which the gap is averaged, at least; else as many as the stage has slots.

The jobs of a stage may begin and end together: then one gap of a round is long, all others short.
"""

LIMIT_GROWTH = 1.5
"""The factor of a limit after a calm minute: 5,000 slots are back from one in 20 minutes."""

UNPACED = 100.0
"""Starts in a second beyond which a stage is not paced: RunTask's burst."""

_LEAST_STARTS = 1.0
"""A second's starts of a stage that is throttled again and again."""

_AT_ONCE = timedelta(seconds=1)
"""Throttles within so long are one, and the starts of so long may come together."""

MAX_HIDDEN = 80_000
"""Hidden messages of a queue beyond which the others stay visible.

SQS gives out no more messages when about 120,000 are hidden. The number is known a minute late, and
five dispatchers hide 20,000 messages in a minute.
"""


@dataclass(frozen=True)
class Pace:
    """The stage's latest claim, and the mean of the gaps between its claims, in seconds."""

    claimed_at: datetime
    gap_s: float


@dataclass(frozen=True)
class StartRate:
    """Starts in a second that AWS lets a stage have, as a throttle left them at `slowed_at`.

    RunTask gives 20 a second to an account, and a hundred at once, shared by all that is in it: a
    throttle of the rate says nothing of room. Each throttle halves the rate, once a second at most,
    and each second adds one start a second, without a write.
    """

    per_s: float
    slowed_at: datetime

    def at(self, now: datetime) -> float:
        return self.per_s + max(0.0, (now - self.slowed_at).total_seconds())

    def starts(self, claimed_at: datetime, now: datetime) -> int:
        """How many may start now, when the latest was claimed then: a second's at most."""
        waited = min(_AT_ONCE, max(timedelta(), now - claimed_at))
        return floor(self.at(now) * waited.total_seconds())

    def slowed(self, now: datetime) -> "StartRate":
        """The rate after a throttle."""
        if now - self.slowed_at < _AT_ONCE:
            return self
        return StartRate(max(_LEAST_STARTS, min(UNPACED, self.at(now)) / 2), now)


@dataclass(frozen=True)
class SlotUse:
    """A stage's slots, as deployed or as its operator set them by hand, and the jobs in them.

    `paused_at`: nothing has started since; None while the stage is not paused.
    """

    running: int
    slots: int
    is_by_hand: bool = False
    paused_at: datetime | None = None


@dataclass(frozen=True)
class Room:
    """A stage's slots a moment ago.

    `pace`: None before the stage's first claim. `starts_per_s`: where more slots are free, and AWS
    gives no more starts.
    """

    slots: int
    free: int
    running: int
    pace: Pace | None = None
    starts_per_s: float | None = None

    def after(self, claims: int, now: datetime) -> Pace:
        """The pace when that many claims happen now."""
        if self.pace is None:
            return Pace(now, 0.0)
        gap_s = max(0.0, (now - self.pace.claimed_at).total_seconds()) / claims
        weight = 1 - (1 - 1 / max(self.slots, _SMOOTHING)) ** claims
        return Pace(now, self.pace.gap_s + weight * (gap_s - self.pace.gap_s))

    def gap_s(self, now: datetime) -> float:
        """Seconds between two claims.

        In a full stage without a claim for long, every slot has been taken for as long: the jobs
        take longer than those before them. Where slots are free, the starts take their time.
        """
        if self.starts_per_s is not None:
            return 1 / self.starts_per_s
        if self.pace is None:
            return 0.0
        silent_s = (now - self.pace.claimed_at).total_seconds()
        return max(self.pace.gap_s, silent_s / self.slots)


def deferrals_s(
    count: int, likely_wait_s: float, timing: LeaseSettings, rng: random.Random
) -> Sequence[int]:
    """Seconds for which each of `count` messages without a slot is hidden.

    Jittered, so that a slot is found soon after it becomes free. Messages that are hidden for the
    longest time stay together: they are many, and one of them comes soon anyhow, and ten in one
    batch cost a tenth.
    """
    wanted_s = likely_wait_s / LOOKS
    if wanted_s >= timing.defer_max_s:
        return [ceil(timing.defer_max_s * rng.uniform(0.5, 1))] * count
    wanted_s = max(wanted_s, timing.defer_min_s)
    return [ceil(wanted_s * rng.uniform(0.5, 1)) for _ in range(count)]
