"""How fast a stage takes jobs, and when a message that waits for a slot is looked at again. Pure.

A message without a slot is hidden for a part of the time that it is likely to wait, and nothing
runs meanwhile. As with beats, the wait is in proportion: a slot stays free for a twentieth of the
time that a job in its stage waits, at most.

    likely wait = messages that wait x gap between two claims of the stage
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from longhaul.settings import LeaseSettings

LOOKS = 20
"""Looks at a message during its likely wait, if none came early."""

MEAN_JITTER = 0.75
"""Of the factor between a half and one by which each wait is shortened."""

_SMOOTHING = 20
"""Claims over which the gap is averaged, at least; else as many as the stage has slots.

The jobs of a stage may begin and end together: then one gap of a round is long, all others short.
"""

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

    `planned`: jobs that are to begin later, as the last sweep counted them. `pace`: None before the
    stage's first claim.
    """

    slots: int
    free: int
    running: int
    planned: int = 0
    pace: Pace | None = None

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
        take longer than those before them.
        """
        if self.pace is None:
            return 0.0
        silent_s = (now - self.pace.claimed_at).total_seconds()
        return max(self.pace.gap_s, silent_s / self.slots)


def deferrals_s(
    count: int, likely_wait_s: float, timing: LeaseSettings, rng: random.Random
) -> Sequence[int]:
    """Seconds for which each of so many messages without a slot is hidden.

    Jittered, so that a slot is found soon after it becomes free. Messages that are hidden for the
    longest time stay together: there are so many that one of them comes soon anyhow, and ten in one
    batch cost a tenth.
    """
    wanted_s = likely_wait_s / LOOKS
    if wanted_s >= timing.defer_max_s:
        return [ceil(timing.defer_max_s * rng.uniform(0.5, 1))] * count
    wanted_s = max(wanted_s, timing.defer_min_s)
    return [ceil(wanted_s * rng.uniform(0.5, 1)) for _ in range(count)]
