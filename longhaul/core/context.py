"""What every use case works with: the ports, the settings, the clock."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from longhaul.core.ports import (
    Background,
    Clock,
    Executions,
    JobQueue,
    LeaseIndex,
    Leases,
    Metrics,
    Requests,
    Slots,
    Tasks,
    Troubles,
)
from longhaul.core.settings import LeaseSettings, RuntimeSettings

_MARGIN = timedelta(seconds=10)
"""For the answer of an invocation, and for what is short and comes after the long work."""


@dataclass(frozen=True, kw_only=True)
class Context:
    settings: RuntimeSettings
    clock: Clock
    rng: random.Random
    background: Background
    leases: Leases
    slots: Slots
    index: LeaseIndex
    troubles: Troubles
    queue: JobQueue
    executions: Executions
    tasks: Tasks
    requests: Requests
    metrics: Metrics

    @property
    def timing(self) -> LeaseSettings:
        return self.settings.lease

    def deadline(self, remaining_ms: int) -> datetime:
        """The time by which an invocation with `remaining_ms` left stops its long work.

        A function that Lambda ends repeats what it did. What is left at the deadline is still in
        the queue, or owed in its row, and another invocation goes on with it.
        """
        return self.clock.now() + timedelta(milliseconds=remaining_ms) - _MARGIN

    def left_s(self, until: datetime | None) -> float | None:
        """Seconds until then; None where nothing ends the work."""
        return None if until is None else (until - self.clock.now()).total_seconds()
