"""Watches the lease rows of the demo's jobs from outside, as any client could, and remembers what it saw."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from longhaul.domain.lease import Lease, State
from longhaul.ports import Clock, LeaseStore

POLL_S = 0.2


class DemoError(Exception):
    """The demo did not go as it must; the message says how."""


@dataclass
class Attempt:
    """One attempt as it was seen."""

    number: int
    claimed_at: datetime
    beats: int = 0
    started_at: datetime | None = None
    settled_at: datetime | None = None
    outcome: str | None = None

    @property
    def seconds(self) -> float | None:
        return (self.settled_at - self.claimed_at).total_seconds() if self.settled_at else None


@dataclass
class Watched:
    """One job: its row as last seen, and its attempts."""

    key: str
    lease: Lease | None = None
    attempts: dict[int, Attempt] = field(default_factory=dict)
    seen_at: datetime | None = None

    def see(self, lease: Lease, now: datetime) -> None:
        self.lease, self.seen_at = lease, now
        attempt = self.attempts.setdefault(lease.attempt, Attempt(lease.attempt, lease.claimed_at))
        attempt.beats = max(attempt.beats, lease.beats)
        if lease.progress_at and attempt.started_at is None:
            attempt.started_at = lease.progress_at
        if lease.settled_attempt == lease.attempt:
            attempt.settled_at, attempt.outcome = lease.settled_at, lease.last_class
        elif (
            lease.settled_attempt and (before := self.attempts.get(lease.settled_attempt)) and before.settled_at is None
        ):
            before.settled_at, before.outcome = lease.settled_at, lease.last_class

    @property
    def label(self) -> str:
        """How people call it: its id, or its stage and place among those that one job emitted."""
        stage, _, job_id = self.key.partition("#")
        if self.lease is None or self.lease.lineage is None:
            return job_id
        groups = self.lease.lineage.groups
        return f"{stage} {groups[-1].n + 1:02}" if groups else stage

    @property
    def seconds(self) -> float:
        """For how long its attempts have run, together; the last one until it was last seen."""
        ends = ((attempt, attempt.settled_at or self.seen_at) for attempt in self.attempts.values())
        return sum((end - attempt.claimed_at).total_seconds() for attempt, end in ends if end)

    @property
    def beats(self) -> int:
        return sum(attempt.beats for attempt in self.attempts.values())

    @property
    def state(self) -> str:
        return self.lease.state.value if self.lease else "QUEUED"

    @property
    def is_finished(self) -> bool:
        return self.lease is not None and self.lease.is_finished


@dataclass
class Watcher:
    """`jobs` by key, with all that follows from those that were added. `on_change` is called after every look, with all of them."""

    leases: LeaseStore
    clock: Clock
    on_change: Callable[[Sequence[Watched]], None]
    jobs: dict[str, Watched] = field(default_factory=dict)

    def add(self, key: str) -> None:
        self.jobs[key] = Watched(key)

    def look(self) -> None:
        for root in [key for key, job in self.jobs.items() if job.lease and job.lease.lineage is None]:
            for key in self.leases.keys_of_root(root):
                self.jobs.setdefault(key, Watched(key))
        now = self.clock.now()
        unfinished = [key for key, job in self.jobs.items() if not job.is_finished]
        for key, lease in self.leases.load_many(unfinished).items():
            self.jobs[key].see(lease, now)
        self.on_change(sorted(self.jobs.values(), key=lambda job: (job.lease.run if job.lease else 0, job.label)))

    def of_stage(self, stage: str) -> list[Watched]:
        """By label: members of a group in their order."""
        return sorted((job for job in self.jobs.values() if job.key.startswith(f"{stage}#")), key=lambda job: job.label)

    def until(self, condition: Callable[[], bool], deadline_s: float, what: str) -> None:
        """Look until the condition holds.

        Raises:
            DemoError: it did not within `deadline_s`, or a job died; the message says for `what` it waited and how the jobs stand.
        """
        started = self.clock.now()
        while not condition():
            for job in self.jobs.values():
                if job.lease and job.lease.state is State.DEAD:
                    raise DemoError(f"{job.label} is dead: {job.lease.last_class}: {job.lease.last_error}")
            if (self.clock.now() - started).total_seconds() > deadline_s:
                standing = ", ".join(f"{job.label} {job.state}" for job in self.jobs.values() if not job.is_finished)
                raise DemoError(f"waited {deadline_s:.0f} s for {what}; unfinished: {standing or 'none'}")
            self.clock.sleep(POLL_S)
            self.look()
