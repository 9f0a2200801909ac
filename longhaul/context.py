"""What every use case works with: the ports, the settings, the clock."""

import random
from dataclasses import dataclass

from longhaul.ports import (
    Background,
    Clock,
    Executions,
    JobQueue,
    Joins,
    LeaseIndex,
    Leases,
    Metrics,
    Notices,
    Publisher,
    Requests,
    SavedWork,
    Slots,
    Tasks,
    Troubles,
)
from longhaul.settings import LeaseSettings, RuntimeSettings


@dataclass(frozen=True, kw_only=True)
class Context:
    settings: RuntimeSettings
    clock: Clock
    rng: random.Random
    background: Background
    leases: Leases
    slots: Slots
    joins: Joins
    index: LeaseIndex
    troubles: Troubles
    queue: JobQueue
    executions: Executions
    tasks: Tasks
    requests: Requests
    publisher: Publisher
    saved: SavedWork
    notices: Notices
    metrics: Metrics

    @property
    def timing(self) -> LeaseSettings:
        return self.settings.lease
