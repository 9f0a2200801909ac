"""Wait for jobs: look at their rows until each has its outcome."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from longhaul.domain.lease import Lease, State
from longhaul.ports import Clock, LeaseStore

_MIN_PERIOD_S = 1.0
# One look reads a hundred rows a call: at this pace a look never takes more than a fraction of the period.
_S_PER_ROW = 0.005


@dataclass(frozen=True)
class Awaited:
    """One submission. `before` is the row before it was sent: only what is newer tells of this message."""

    key: str
    fingerprint: str
    before: Lease | None


@dataclass(frozen=True)
class Standing:
    """How a job stands. `done` and `succeeded` are final."""

    key: str
    lease: Lease | None
    done: bool
    conflict: bool = False

    @property
    def succeeded(self) -> bool:
        return self.done and not self.conflict and self.lease is not None and self.lease.state is State.SUCCEEDED


def conflicts(awaited: Awaited) -> bool:
    """Whether the dispatcher would dead-letter the message: its key belongs to other work."""
    row = awaited.before
    return (
        row is not None
        and not row.is_mark
        and row.state in (State.RUNNING, State.RELEASED, State.SUCCEEDED)
        and row.fingerprint != awaited.fingerprint
    )


@dataclass(frozen=True)
class Waiter:
    clock: Clock
    leases: LeaseStore

    def before(self, keys: Mapping[str, str]) -> list[Awaited]:
        """What to wait for, given fingerprints by key; to be asked before the messages are sent."""
        rows = self.leases.load_many(keys)
        return [Awaited(key, fingerprint, rows.get(key)) for key, fingerprint in keys.items()]

    def watch(self, awaited: Sequence[Awaited]) -> Iterator[Mapping[str, Standing]]:
        """How all stand, at every look; ends when all are done. Does not look again at those that are."""
        standings = {each.key: Standing(each.key, None, done=False) for each in awaited}
        waiting = {each.key: each for each in awaited}
        while True:
            rows = self.leases.load_many(waiting)
            for key, each in list(waiting.items()):
                standings[key] = standing(each, rows.get(key))
                if standings[key].done:
                    del waiting[key]
            yield standings
            if not waiting:
                return
            self.clock.sleep(max(_MIN_PERIOD_S, _S_PER_ROW * len(waiting)))


def standing(awaited: Awaited, row: Lease | None) -> Standing:
    """How a row tells of the message that was sent."""
    before = awaited.before
    if row is None:
        return Standing(awaited.key, None, done=False)
    ended_before = before is not None and before.state in (State.DEAD, State.CANCELLED)
    if ended_before and before is not None and row.run == before.run:
        return Standing(awaited.key, None, done=False)  # still the old run; the new one is queued
    if not row.is_mark and row.fingerprint and row.fingerprint != awaited.fingerprint:
        return Standing(awaited.key, row, done=True, conflict=True)
    return Standing(awaited.key, row, done=row.is_finished)


def moved(before: Lease | None, after: Lease | None) -> bool:
    """Whether something happened that is worth a line."""
    return _moment(before) != _moment(after)


def _moment(lease: Lease | None) -> tuple[State, int, datetime | None] | None:
    return (lease.state, lease.attempt, lease.cancel_requested_at) if lease else None
