"""Finds the released jobs whose next attempt is due, so that they do not wait behind a backlog."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice

from longhaul.domain.claim import Claim
from longhaul.domain.retry import decide_retry
from longhaul.ports import Clock, LeaseIndex, Leases
from longhaul.settings import LeaseSettings, Stage

_LOOKED_AT = 100
"""Released jobs of a stage that are looked at: one read of the index, one of the rows."""


@dataclass(frozen=True, kw_only=True)
class Retries:
    timing: LeaseSettings
    clock: Clock
    leases: Leases
    index: LeaseIndex

    def due(self, stage: Stage, most: int, *, but: Collection[str]) -> list[Claim]:
        """The claims of at most so many jobs, the longest due first.

        `but`: keys of jobs whose messages are in hand.
        """
        keys = islice(self.index.open_keys(stage.name, "RELEASED"), _LOOKED_AT)
        rows = self.leases.load_many([key for key in keys if key not in but]).values()
        now = self.clock.now()
        found = [claim for row in rows if (claim := decide_retry(row, self.timing, now))]
        found.sort(key=lambda claim: claim.lease.retry_at or now)
        return found[:most]
