"""What a job waits for, and until when. Pure.

In this order: its stage is paused; the time at which it is to begin; its back-off, or the end of a
task that may still run; one of the stage's slots; its message.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from longhaul.domain.lease import Lease, State
from longhaul.domain.pace import SlotUse
from longhaul.settings import LeaseSettings


@dataclass(frozen=True)
class Wait:
    """One wait.

    `until`: when it is over at the latest; None for a pause, which a person ends, and for a slot,
    which another job gives back.
    """

    what: Literal["pause", "start", "back-off", "slot", "message"]
    until: datetime | None = None


def wait_of(row: Lease, use: SlotUse | None, timing: LeaseSettings, now: datetime) -> Wait | None:
    """What a job between two attempts waits for; None for another.

    `use`: the slots of its stage; None where they are not known.
    """
    if row.state is not State.RELEASED or row.is_mark:
        return None
    if row.retry_at is not None and now < row.retry_at and not (use and use.paused_at):
        return Wait("start" if row.is_planned else "back-off", until=row.retry_at)
    # A message that is lost is replaced by then, see `Sweeper`.
    replaced_at = now - row.unseen_for(now) + timedelta(seconds=timing.missing_after_s)
    return wait_for_slot(use) or Wait("message", until=replaced_at)


def wait_for_slot(use: SlotUse | None) -> Wait | None:
    """What keeps a stage from starting the next job; None where nothing does, as far as known."""
    if use is not None and use.paused_at is not None:
        return Wait("pause")
    return Wait("slot") if use is not None and use.running >= use.slots else None
