"""Watches the rows and the attempts of the demo's jobs, as any client could."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from longhaul.core.history import AttemptRecord
from longhaul.core.lease import Lease, State
from longhaul.core.ports import Clock, Leases
from longhaul.pipelines.trees import Trees

POLL_S = 0.5


class DemoError(Exception):
    """The demo failed; the message says how."""


@dataclass
class WatchedJob:
    """A job: its row as last seen, and its attempts in order."""

    key: str
    lease: Lease | None = None
    attempts: Sequence[AttemptRecord] = ()
    seen_at: datetime | None = None

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
        ends = ((record, record.ended_at or self.seen_at) for record in self.attempts)
        return sum((end - each.attempt.claimed_at).total_seconds() for each, end in ends if end)

    @property
    def beats(self) -> int:
        return sum(record.attempt.beats for record in self.attempts)

    @property
    def state(self) -> str:
        return self.lease.state.value if self.lease else "QUEUED"

    @property
    def sizes(self) -> str:
        """Those of its attempts, each once."""
        return ", then ".join(dict.fromkeys(record.size for record in self.attempts))

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
    trees: Trees
    clock: Clock
    on_change: Callable[[Sequence[WatchedJob]], None]
    jobs: dict[str, WatchedJob] = field(default_factory=dict)

    def add(self, key: str) -> None:
        self.jobs[key] = WatchedJob(key)

    def look(self) -> None:
        # Those that go on are read again below: the walk reads what is new.
        known = {key: job.lease for key, job in self.jobs.items() if job.lease}
        for root in [each for each in known.values() if each.lineage is None]:
            for job in self.trees.walk(root, known).all():
                if job.lease:
                    self.jobs.setdefault(job.key, WatchedJob(job.key))
        now = self.clock.now()
        unfinished = [key for key, job in self.jobs.items() if not job.is_finished]
        latest = dict(self.leases.load_many(unfinished))
        for key, lease in latest.items():
            self.jobs[key].lease, self.jobs[key].seen_at = lease, now
        for key, attempts in self.leases.history(latest.values()).items():
            self.jobs[key].attempts = attempts
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
