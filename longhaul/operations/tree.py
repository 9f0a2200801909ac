"""A job and all that descends from it, walked from the rows alone.

What follows from a success is in its row, and the ids of what follows are derived. So also a job
that is still queued is known, and nothing waits for an index that lags.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from longhaul.domain.dead_letter import Refusal
from longhaul.domain.lease import Lease, State, job_key
from longhaul.domain.lineage import child_id
from longhaul.domain.pipeline import Pipeline
from longhaul.domain.waiting import Wait
from longhaul.operations.cancel import Canceller
from longhaul.operations.view import QUEUED, JobState, JobStatus, shown_state
from longhaul.ports import Leases, Refusals, Requests
from longhaul.settings import RuntimeSettings

_NONE: Mapping[str, Lease] = MappingProxyType({})
WAITS: Literal["WAITS"] = "WAITS"
"""The state of a join that still waits for others."""


@dataclass
class TreeJob:
    """A job of a tree.

    Attributes:
        key: `stage#job_id`.
        lease: Its row; None while it is queued, a join that waits, or refused.
        refusal: Why it was refused before it had a row.
        waits_for: Of a join without a row: for how many jobs it waits, as far as they are known.
        collects: Of such a join: how many it collects, those that it has among them.
        children: The jobs that its success has led to, in the order of their places.
    """

    key: str
    lease: Lease | None
    refusal: Refusal | None = None
    waits_for: int = 0
    collects: int = 0
    children: "list[TreeJob]" = field(default_factory=list)

    @property
    def stage(self) -> str:
        return self.key.partition("#")[0]

    @property
    def job_id(self) -> str:
        return self.key.partition("#")[2]

    @property
    def root_id(self) -> str:
        """The id of the first job of its pipeline; of a job without a row its own."""
        return self.lease.root.partition("#")[2] if self.lease else self.job_id

    @property
    def state(self) -> JobState | Literal["WAITS"]:
        if self.lease is not None:
            return shown_state(self.lease)
        if self.refusal is not None:
            return "DEAD"
        return WAITS if self.waits_for else QUEUED

    @property
    def is_open(self) -> bool:
        """Whether something is still to come of it by itself."""
        return self.state == QUEUED or (self.lease is not None and not self.lease.is_finished)

    def status(self, root: str, wait: Wait | None = None) -> JobStatus:
        """How a job without a row stands.

        Args:
            root: The id of the first job of its pipeline.
            wait: What the queued jobs of its stage wait for, if it is known.
        """
        state: JobState = "DEAD" if self.refusal else QUEUED
        kind, error, at = (
            (self.refusal.kind, self.refusal.reason, self.refusal.refused_at)
            if self.refusal
            else (None, None, None)
        )
        return JobStatus(
            job_id=self.job_id,
            stage=self.stage,
            state=state,
            root=root,
            kind=kind,
            error=error,
            settled_at=at,
            waits_for=wait.what if wait and state == QUEUED else None,
        )

    def all(self) -> "Iterator[TreeJob]":
        """This job and everything below it."""
        yield self
        for child in self.children:
            yield from child.all()

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it goes on. A join that waits for a job that died does not count."""
        return not any(job.is_open for job in self.all())

    @property
    def has_succeeded(self) -> bool:
        return all(job.state == State.SUCCEEDED and not job.is_open for job in self.all())

    def counts(self) -> Mapping[str, Counter[str]]:
        """The number of jobs in each state, by stage, in the order in which they follow."""
        found: dict[str, Counter[str]] = {}
        for job in self.all():
            found.setdefault(job.stage, Counter())[job.state] += 1
        return found


@dataclass(frozen=True)
class Trees:
    """Walks trees: a hundred rows in a call, one level after the other."""

    settings: RuntimeSettings
    leases: Leases
    refusals: Refusals
    requests: Requests

    def walk(self, lease: Lease, known: Mapping[str, Lease] = _NONE) -> TreeJob:
        """The tree from a job downwards, as its rows are now.

        Rows in `known`, by key, are not read again: of successes, which stay as they are.
        """
        top = TreeJob(lease.key, lease)
        level = [top]
        while level:
            below = [(job, key) for job in level for key in self._follow(job.lease)]
            rows = self.leases.load_many(key for _, key in below if key not in known)
            level = []
            for parent, key in below:
                child = TreeJob(key, known.get(key) or rows.get(key))
                parent.children.append(child)
                level.append(child)
        absent = {job.key: job for job in top.all() if job.lease is None}
        for key, refusal in self.refusals.find_refusals(absent).items():
            absent[key].refusal = refusal
        pipeline = Pipeline(self.settings.stages)
        for job in top.all():
            for child in job.children:
                if child.state == QUEUED and self._is_join(job.lease, child.stage):
                    child.waits_for, child.collects = _waits(job, child.stage, pipeline)
        return top

    def _follow(self, lease: Lease | None) -> Iterator[str]:
        """The keys of the jobs to which a success led; joins come last."""
        output = lease.attempt.output if lease else None
        if lease is None or lease.state is not State.SUCCEEDED or output is None:
            return
        if output.emitted_ref is None:
            led_to: Mapping[str, int] = dict.fromkeys(lease.leads_to or (), 1)
        elif output.emitted is not None:
            led_to = output.emitted
        else:  # by a version that did not count them
            led_to = self.requests.count_emitted(output.emitted_ref)
        for stage, size in led_to.items():
            for n in range(size):
                yield _child(lease, stage, n)
        for stage in lease.opens:
            yield _child(lease, stage, "join")

    def _is_join(self, opener: Lease | None, stage: str) -> bool:
        return opener is not None and stage in opener.opens


def _child(lease: Lease, stage: str, n: int | str) -> str:
    return job_key(stage, child_id(lease.root, stage, lease.key, lease.run, n))


def _waits(job: TreeJob, join: str, pipeline: Pipeline) -> tuple[int, int]:
    """For how many jobs a join of the job waits, and of how many; as far as they are known.

    Jobs in the stage before the join count, and in their place those that have not got there.
    """
    if job.state != State.SUCCEEDED:
        return 1, 1
    if join not in pipeline.joins or job.stage == pipeline.collected(join):
        return 0, 1
    leading = (child for child in job.children if pipeline.leads(child.stage, join))
    below = [_waits(child, join, pipeline) for child in leading]
    return sum(left for left, _ in below), sum(size for _, size in below)


def unwell(tree: TreeJob) -> list[Lease]:
    """The rows of the jobs of a tree that ended otherwise than well, and can be run again."""
    rows = (job.lease for job in tree.all())
    return [row for row in rows if row is not None and row.state in (State.DEAD, State.CANCELLED)]


def progress(tree: TreeJob) -> str:
    """How far a tree is, in words: `parse 6 of 7 (1 DEAD), sessions 3 of 7, report waits for 4`."""
    waiting: Counter[str] = Counter()
    for job in tree.all():
        waiting[job.stage] += job.waits_for
    return ", ".join(_of_stage(name, each, waiting[name]) for name, each in tree.counts().items())


def _of_stage(name: str, states: Counter[str], waits_for: int) -> str:
    if states[WAITS] == states.total() == 1:
        return f"{name} waits for {waits_for:,}"
    good = states[State.SUCCEEDED]
    rest = [f"{states[each]:,} {each}" for each in (State.DEAD, State.CANCELLED) if states[each]]
    return f"{name} {good:,} of {states.total():,}" + (f" ({', '.join(rest)})" if rest else "")


@dataclass(frozen=True)
class TreeCanceller:
    trees: Trees
    canceller: Canceller

    def cancel(self, lease: Lease) -> list[Lease]:
        """Cancel a job and what descends from it, also what is still queued; returns their rows.

        From the top, and again until nothing is left that was not cancelled: a job may have
        succeeded in between, and led to others.
        """
        cancelled: dict[str, Lease] = {}
        while True:
            left = [
                job
                for job in self.trees.walk(lease).all()
                if job.is_open and job.key not in cancelled
            ]
            if not left:
                return list(cancelled.values())
            for job in left:
                cancelled[job.key] = self.canceller.cancel(job.stage, job.job_id)
