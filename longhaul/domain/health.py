"""What should not be: leases that the repairs ought to have seen to. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from longhaul.domain.lease import Lease, State
from longhaul.settings import LeaseSettings

SWEEP_PERIOD = timedelta(minutes=5)
_MISSED_SWEEPS = 3
"""One may be late, one may fail; what three have left is not repaired by itself."""


@dataclass(frozen=True)
class Stuck:
    """Keys by what is wrong with them."""

    overdue: tuple[str, ...]  # RUNNING, and nobody has renewed the lease for long
    owed: tuple[str, ...]  # ended, and still owing something
    missing: tuple[str, ...]  # RELEASED, and their message has not come

    def __bool__(self) -> bool:
        return bool(self.overdue or self.owed or self.missing)


def stuck(leases: Iterable[Lease], numbers: LeaseSettings, now: datetime) -> Stuck:
    """The leases that several sweeps must have seen, and not repaired."""
    patience = SWEEP_PERIOD * _MISSED_SWEEPS
    overdue, owed, missing = [], [], []
    for lease in leases:
        if lease.is_overdue(now, timedelta(seconds=numbers.visibility_margin_s) + patience):
            overdue.append(lease.key)
        elif (
            lease.state is State.RELEASED
            and lease.unseen_for(now) > timedelta(seconds=numbers.missing_after_s) + patience
        ):
            missing.append(lease.key)
        elif lease.owed and now > (lease.settled_at or lease.claimed_at) + patience:
            owed.append(lease.key)
    return Stuck(tuple(overdue), tuple(owed), tuple(missing))
