"""What the jobs of a stage wait for, read when a person asks."""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

from longhaul.domain.job_state import QUEUED
from longhaul.domain.lease import Lease, State
from longhaul.domain.waiting import Wait, Waits, queued
from longhaul.trees import TreeJob

if TYPE_CHECKING:
    from longhaul.operations.stack import Stack

MAX_READ: Final = 1_000
"""The most rows that are read to tell a job's place, a hundred in a call."""


def waits_in(stack: "Stack", lease: Lease, now: datetime) -> Waits | None:
    """The waits of the jobs of a stage, if this one is between two attempts.

    Its place is not known where more than `MAX_READ` others are.
    """
    if lease.state is not State.RELEASED or lease.is_mark:
        return None
    uses = {}
    if lease.stage in {each.name for each in stack.settings.stages}:  # it may have been taken out
        uses[lease.stage] = stack.parts.slots.use(stack.settings.stage(lease.stage))
    rows = list(islice(stack.jobs.open_of_kind(lease.stage, "RELEASED"), MAX_READ + 1))
    return Waits(now, stack.settings.lease, uses, rows if len(rows) <= MAX_READ else None)


def waits_of_queued(stack: "Stack", tree: TreeJob) -> Mapping[str, Wait]:
    """What the queued jobs of a tree wait for, by stage; a `GetItem` for each stage with some."""
    known = {each.name: each for each in stack.settings.stages}
    stages = {job.stage for job in tree.all() if job.state == QUEUED and job.stage in known}
    return {name: queued(stack.parts.slots.use(known[name])) for name in sorted(stages)}
