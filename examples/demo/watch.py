"""Watches the lease rows of the demo's jobs, as any client could, and records each attempt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from longhaul.domain.lease import Lease, State
from longhaul.ports import Clock, LeaseIndex, Leases

POLL_S = 0.5


class DemoError(Exception):
    """The demo failed; the message says how."""


@dataclass
class SeenAttempt:
    """An attempt, as far as the watcher saw it. It may miss the last beats."""

    number: int
    claimed_at: datetime
    size: str
    engine: str
    beats: int = 0
    started_at: datetime | None = None
    settled_at: datetime | None = None
    outcome: str | None = None

    @property
    def seconds(self) -> float | None:
        return (self.settled_at - self.claimed_at).total_seconds() if self.settled_at else None


@dataclass
class WatchedJob:
    """A job: its row as last seen, and its attempts by number."""

    key: str
    lease: Lease | None = None
    attempts: dict[int, SeenAttempt] = field(default_factory=dict)
    seen_at: datetime | None = None

    def see(self, lease: Lease, now: datetime) -> None:
        self.lease, self.seen_at = lease, now
        attempt = self.attempts.setdefault(
            lease.attempt.number,
            SeenAttempt(
                lease.attempt.number,
                lease.attempt.claimed_at,
                lease.input.size,
                lease.input.engine,
            ),
        )
        attempt.beats = max(attempt.beats, lease.attempt.beats)
        if lease.attempt.progress_at and attempt.started_at is None:
            attempt.started_at = lease.attempt.progress_at
        if lease.settled_attempt == lease.attempt.number:
            attempt.settled_at, attempt.outcome = lease.settled_at, lease.last_class
        elif (
            lease.settled_attempt
            and (before := self.attempts.get(lease.settled_attempt))
            and before.settled_at is None
        ):
            before.settled_at, before.outcome = lease.settled_at, lease.last_class

    @property
    def label(self) -> str:
        """A short name: the job's id, or its stage and its number among the jobs of one emitter."""
        stage, _, job_id = self.key.partition("#")
        if self.lease is None or self.lease.lineage is None:
            return job_id
        groups = [group for group in self.lease.lineage.groups if group.size != 1]
        return f"{stage} {groups[-1].n + 1:02}" if groups else stage

    @property
    def seconds(self) -> float:
        """The total time of its attempts; an attempt without an end counts to the last look."""
        ends = ((attempt, attempt.settled_at or self.seen_at) for attempt in self.attempts.values())
        return sum((end - attempt.claimed_at).total_seconds() for attempt, end in ends if end)

    @property
    def beats(self) -> int:
        return sum(attempt.beats for attempt in self.attempts.values())

    @property
    def state(self) -> str:
        return self.lease.state.value if self.lease else "QUEUED"

    @property
    def sizes(self) -> str:
        """Those of its attempts, each once."""
        return ", then ".join(dict.fromkeys(each.size for each in self.attempts.values()))

    @property
    def runs(self) -> bool:
        """Whether its task or invocation was at work when last seen."""
        lease = self.lease
        return (
            lease is not None
            and lease.state is State.RUNNING
            and lease.attempt.task_arn is not None
        )

    @property
    def is_finished(self) -> bool:
        return self.lease is not None and self.lease.is_finished


@dataclass
class Watcher:
    """Follows the added jobs and all jobs that they emit. `jobs` holds them by key.

    `on_change` is called with all jobs after each look.
    """

    leases: Leases
    index: LeaseIndex
    clock: Clock
    on_change: Callable[[Sequence[WatchedJob]], None]
    jobs: dict[str, WatchedJob] = field(default_factory=dict)

    def add(self, key: str) -> None:
        self.jobs[key] = WatchedJob(key)

    def look(self) -> None:
        for root in [
            key for key, job in self.jobs.items() if job.lease and job.lease.lineage is None
        ]:
            for key in self.index.keys_of_root(root):
                self.jobs.setdefault(key, WatchedJob(key))
        now = self.clock.now()
        unfinished = [key for key, job in self.jobs.items() if not job.is_finished]
        for key, lease in self.leases.load_many(unfinished).items():
            self.jobs[key].see(lease, now)
        self.on_change(
            sorted(
                self.jobs.values(), key=lambda job: (job.lease.run if job.lease else 0, job.label)
            )
        )

    def of_stage(self, stage: str) -> list[WatchedJob]:
        """The stage's jobs, ordered by label."""
        return sorted(
            (job for job in self.jobs.values() if job.key.startswith(f"{stage}#")),
            key=lambda job: job.label,
        )

    def until(self, condition: Callable[[], bool], deadline_s: float, what: str) -> None:
        """Look until the condition holds.

        Raises:
            DemoError: a job died, or the condition did not hold within `deadline_s`; the message
                names `what` was awaited and the unfinished jobs.
        """
        started = self.clock.now()
        while not condition():
            for job in self.jobs.values():
                if job.lease and job.lease.state is State.DEAD:
                    raise DemoError(
                        f"{job.label} is dead: {job.lease.last_class}: {job.lease.last_error}"
                    )
            if (self.clock.now() - started).total_seconds() > deadline_s:
                standing = ", ".join(
                    f"{job.label} {job.state}" for job in self.jobs.values() if not job.is_finished
                )
                raise DemoError(
                    f"waited {deadline_s:.0f} s for {what}; unfinished: {standing or 'none'}"
                )
            self.clock.sleep(POLL_S)
            self.look()
