"""Find jobs: one by its id, or lists of what is unfinished and of what ended lately."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import MappingProxyType

from longhaul.domain.family import Member, family
from longhaul.domain.lease import Lease, OpenKind, State, job_key
from longhaul.domain.timeline import Lane, lane
from longhaul.ports import Clock, LeaseStore

_PAGE = 100
_NONE: Mapping[str, Lease] = MappingProxyType({})
OPEN_KINDS: tuple[OpenKind, ...] = ("RUNNING", "RELEASED", "OWED")
TERMINAL = tuple(state for state in State if state.is_terminal)


@dataclass(frozen=True)
class Ages:
    """Both ends are open: None = any age. An unfinished job is as old as its run, an ended one as its end."""

    older_than: timedelta | None = None
    newer_than: timedelta | None = None

    def include(self, lease: Lease, now: datetime) -> bool:
        age = now - moment_of(lease)
        return (self.older_than is None or age >= self.older_than) and (
            self.newer_than is None or age <= self.newer_than
        )


@dataclass(frozen=True)
class Jobs:
    clock: Clock
    leases: LeaseStore

    def find(self, stages: Sequence[str], job_id: str) -> list[Lease]:
        """The rows of that job id, in any of the stages; also one that only holds a cancel mark."""
        return list(self.leases.load_many(job_key(stage, job_id) for stage in stages).values())

    def family(self, lease: Lease) -> Member:
        """The job, and everything that followed from it."""
        return family([lease, *self.related(lease)], lease.key)

    def related(self, lease: Lease) -> Iterator[Lease]:
        """The other jobs that began with the same one, in no order; through an index, so what has just begun may be missing. Reads as far as it is asked."""
        keys = (key for key in self.leases.keys_of_root(lease.root) if key != lease.key)
        while page := list(islice(keys, _PAGE)):
            yield from self.leases.load_many(page).values()

    def unfinished(self, stages: Sequence[str]) -> list[Lease]:
        """All that runs, waits for its next attempt, or has ended and still owes something; oldest runs first. There is no more of it than jobs in flight."""
        found = []
        for stage in stages:
            for kind in OPEN_KINDS:
                keys = self.leases.open_keys(stage, kind)
                while page := list(islice(keys, _PAGE)):
                    # The index is a little late: the row says what is so.
                    found += [row for row in self.leases.load_many(page).values() if row.open_kind == kind]
        return sorted(found, key=lambda row: (row.state.is_terminal, row.run, row.key))

    def ended(
        self, stages: Sequence[str], states: Sequence[State], ages: Ages, known: Mapping[str, Lease] = _NONE
    ) -> Iterator[Lease]:
        """What has ended and owes nothing more, the latest end first. Reads as far as it is asked.

        Rows in `known`, by key, that ended when the index says so are not read again: they will not change.
        """
        now = self.clock.now()
        until = now - ages.older_than if ages.older_than else now
        since = now - ages.newer_than if ages.newer_than else None
        ends = heapq.merge(
            *(self.leases.ended_keys(stage, state, until) for stage in stages for state in states if state.is_terminal),
            reverse=True,
        )
        while page := list(islice(ends, _PAGE)):
            ours = {key: known[key] for at, key in page if key in known and known[key].settled_at == at}
            rows = {**self.leases.load_many(key for _, key in page if key not in ours), **ours}
            for at, key in page:
                if since is not None and at < since:
                    return
                row = rows.get(key)
                if row is not None and row.is_finished and row.state in states and row.settled_at == at:
                    yield row

    def lanes(self, rows: Iterable[Lease]) -> Iterator[Lane]:
        """The lives of jobs, with all attempts that are remembered; a hundred jobs at a time."""
        wanted = iter(rows)
        while page := list(islice(wanted, _PAGE)):
            attempts = self.leases.history(page)
            yield from (lane(row, attempts[row.key]) for row in page)


def moment_of(lease: Lease) -> datetime:
    """When it ended, or when its run began."""
    if lease.state.is_terminal and lease.settled_at is not None:
        return lease.settled_at
    return datetime.fromtimestamp(lease.run / 1000, UTC)
