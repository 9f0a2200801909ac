"""A job and all that descends from it, walked from the rows alone.

What follows from a success is in its row, and the ids of what follows are derived. So also a job
that is still queued is known, and nothing waits for an index that lags.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal

from longhaul.core.descent import child_id
from longhaul.core.errors import TimeUpError
from longhaul.core.lease import (
    QUEUED,
    UNREADABLE,
    JobState,
    Lease,
    Receive,
    State,
    job_key,
)
from longhaul.core.ports import Leases
from longhaul.core.settings import RuntimeSettings
from longhaul.pipelines.backfill import Backfill
from longhaul.pipelines.follow_ons import Joins, join_key
from longhaul.pipelines.pipeline import Pipeline

_NONE: Mapping[str, Lease] = MappingProxyType({})
WAITS: Literal["WAITS"] = "WAITS"
"""The state of a join that still waits for others."""

_PAGE: Final = 100
_NO_RECEIVE: Final = Receive(message_id="")


@dataclass
class TreeJob:
    """A job of a tree.

    Attributes:
        key: `stage#job_id`.
        lease: Its row; None while it is queued, or a join that waits, or if it is unreadable.
        waits_for: Of a join without a row: for how many jobs it waits.
        collects: Of such a join: how many it collects, as far as they are known, those that it has
            among them.
        is_join: Whether it collects what descends from the job above it.
        since: The run of the parent that has led to it; of a join the changes that it is to have
            seen. A row that follows from an earlier one is still to run again.
        led_at: When the parent had succeeded; a cancel since then ends what was to run again.
        again_at: When a backfill has sent the job again, which had ended.
        is_kept: Whether the parent was run again alone: what it has led to once stays as it is.
        is_job: False of the top of a backfill's jobs.
        is_unreadable: Whether its row cannot be read by this version.
        children: The jobs that its success has led to, in the order of their places.
    """

    key: str
    lease: Lease | None
    waits_for: int = 0
    collects: int = 0
    is_join: bool = False
    since: int = 0
    led_at: datetime | None = None
    again_at: datetime | None = None
    is_kept: bool = False
    is_job: bool = True
    is_unreadable: bool = False
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
        if self.is_unreadable:
            return UNREADABLE
        if self.lease is not None:
            return self.lease.shown_state
        return WAITS if self.waits_for else QUEUED

    @property
    def is_open(self) -> bool:
        """Whether something is still to come of it by itself."""
        if self.is_kept and self.lease is None:
            return False
        return self.state == QUEUED or (self.lease is not None and not self.lease.is_finished)

    @property
    def may_go_on(self) -> bool:
        """Whether it is open, as far as is known: the end of its tree is not to be told."""
        return self.is_open or self.is_unreadable

    def all(self) -> "Iterator[TreeJob]":
        """This job and everything below it."""
        if self.is_job and not (self.is_kept and self.lease is None):
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
class Look:
    """What a look at a tree has met: `open`, the key of a job that goes on; else it has ended.

    A tree with an open job is not whole.
    """

    tree: TreeJob
    open: str | None = None


@dataclass(frozen=True)
class Trees:
    """Walks trees: a hundred rows in a call, one level after the other."""

    settings: RuntimeSettings
    leases: Leases
    joins: Joins

    def walk(self, lease: Lease, known: Mapping[str, Lease] = _NONE) -> TreeJob:
        """The tree from a job downwards, as its rows are now.

        Rows in `known`, by key, are not read again: of successes, until what led there runs
        again.
        """
        top = TreeJob(lease.key, lease)
        self._grow([top], known)
        self._count_waits(top)
        return top

    def walk_backfill(self, backfill: Backfill, known: Mapping[str, Lease] = _NONE) -> TreeJob:
        """The trees of the jobs that a backfill has sent, below a top that is no job.

        `known`: as of `walk`.
        """
        top = _top(backfill)
        self.read_rows(top.children, known)
        self._grow(top.children, known)
        self._count_waits(top)
        return top

    def _grow(self, level: Sequence[TreeJob], known: Mapping[str, Lease] = _NONE) -> None:
        """Read all that descends from the jobs, one level after the other."""
        while level:
            level = self._below(level)
            self.read_rows(level, known)

    def look_through(self, lease: Lease, is_over: Callable[[], bool] = lambda: False) -> Look:
        """Walk the tree until a job is met that goes on; of one that has ended all of it.

        Each level is read from its end: what came last is likely to end last. So a tree with an
        open job costs a call or two for each level, however large it is. Of one that has ended, all
        that can begin again is read twice: if nothing has changed in between, nothing went on at
        the moment between the two.

        Args:
            lease: The row of the job at the top.
            is_over: Whether there is no time left.

        Raises:
            TimeUpError: there was not enough time.
        """
        top = TreeJob(lease.key, _lean(lease))
        going = self._goes_on(top, is_over)
        if going is None:
            root = self.leases.load(lease.key)
            is_same = root is not None and root.id == lease.id and root.tree == lease.tree
            going = None if is_same else lease.key
        return Look(top, going)

    def look_through_backfill(
        self, backfill: Backfill, is_over: Callable[[], bool] = lambda: False
    ) -> Look:
        """The same of the jobs that a backfill has sent, and of what descends from them.

        Raises:
            TimeUpError: there was not enough time.
        """
        top = _top(backfill)
        return Look(top, self._goes_on(top, is_over))

    def _goes_on(self, top: TreeJob, is_over: Callable[[], bool]) -> str | None:
        """Key of a job below the top that goes on; None when all of it has ended."""
        level = [top]
        while level:
            level = self._below(level)
            for start in reversed(range(0, len(level), _PAGE)):
                if is_over():
                    raise TimeUpError
                page = level[start : start + _PAGE]
                self.read_rows(page)
                for job in reversed(page):
                    job.lease = job.lease and _lean(job.lease)
                    # Whether a join waits is known once all before it are.
                    if job.may_go_on and not (job.lease is None and job.is_join):
                        return job.key
        self._count_waits(top)
        going = next((job.key for job in top.all() if job.may_go_on), None)
        return going or self._changed(top)

    def _below(self, level: Iterable[TreeJob]) -> list[TreeJob]:
        """Give the jobs their children, still without rows; returns these.

        The jobs of a backfill are known without a row.
        """
        below, joins = [], dict[str, TreeJob]()
        for job in level:
            if not job.is_job:
                below += job.children
                continue
            for key in self._follow(job.lease):
                child = _led_to(job.lease, key)
                if job.lease and child.stage in job.lease.opens:
                    child.is_join, child.since = True, 0
                    joins[join_key(child.stage, job.key)] = child
                job.children.append(child)
                below.append(child)
        for key, standing in self.joins.standings(joins).items():
            joins[key].since = standing.changes
        return below

    def read_rows(self, jobs: Sequence[TreeJob], known: Mapping[str, Lease] = _NONE) -> None:
        """Read their rows."""
        for job in jobs:
            job.lease = _standing(job, known.get(job.key))
        rows = self.leases.load_many(job.key for job in jobs if job.lease is None)
        for job in jobs:
            job.is_unreadable = job.key in rows.unreadable
            if job.lease is None and not job.is_unreadable:
                job.lease = _standing(job, rows.get(job.key))

    def _count_waits(self, top: TreeJob) -> None:
        """Note for how many jobs the joins wait that have no row.

        They say it themselves, and are asked once the rows are read: what a row says of a job's
        latest run is not what the job had arrived with.
        """
        pipeline, waiting = Pipeline(self.settings.stages), dict[str, TreeJob]()
        for job in top.all():
            for child in job.children:
                if child.is_join and child.state == QUEUED:
                    waiting[join_key(child.stage, job.key)] = child
                    child.waits_for = child.collects = _collects(job, child.stage, pipeline)
        for key, standing in self.joins.standings(waiting).items():
            waiting[key].waits_for = standing.waits_for

    def _changed(self, top: TreeJob) -> str | None:
        """Key of a job of an ended tree that is not any more as it was.

        A success stays one, and what waits for the dead waits.
        """
        unwell = [job for job in top.all() if job.state not in (State.SUCCEEDED, WAITS)]
        again = [TreeJob(job.key, None) for job in unwell]
        self.read_rows(again)
        for before, now in zip(unwell, again, strict=True):
            if _moment(before) != _moment(now):
                return now.key
        return None

    def _follow(self, lease: Lease | None) -> Iterator[str]:
        """The keys of the jobs to which a success led; joins come last."""
        if lease is None:
            return
        jobs, joins = led_to(lease)
        for stage, size in jobs.items():
            for n in range(size):
                yield _child(lease, stage, n)
        for stage in joins:
            yield _child(lease, stage, "join")


def led_to(lease: Lease) -> tuple[Mapping[str, int], Sequence[str]]:
    """How many jobs of which stages a success led to, and the joins that belong to it."""
    output = lease.attempt.output
    if lease.state is not State.SUCCEEDED or output is None or lease.cut_off:
        return {}, ()
    jobs = dict.fromkeys(lease.leads_to or (), 1) if output.emitted is None else output.emitted
    return jobs, lease.opens


def _top(backfill: Backfill) -> TreeJob:
    children = [
        TreeJob(f"{backfill.key}/{value}", None, again_at=backfill.again.get(value))
        for value in backfill.values
    ]
    return TreeJob(backfill.key, None, is_job=False, children=children)


def _lean(lease: Lease) -> Lease:
    """The row without what a look does not ask for: a tree may have a hundred thousand jobs."""
    output = lease.attempt.output
    return replace(
        lease,
        execution_input="",
        request_ref="",
        last_error=None,
        receive=_NO_RECEIVE,
        attempt=replace(
            lease.attempt,
            progress={},
            beat_ages_s=(),
            result=None,
            output=output and replace(output, results=None),
        ),
    )


def _moment(job: TreeJob) -> tuple[Any, ...] | None:
    """What changes when a job that has ended begins again."""
    row = job.lease
    return (row.id, row.state, row.owed) if row else None


def _led_to(parent: Lease | None, key: str) -> TreeJob:
    """The job of that key, without a row, to which a success led."""
    if parent is None or parent.only:
        return TreeJob(key, None, is_kept=True)
    return TreeJob(key, None, since=parent.run, led_at=parent.ended_at)


def _is_to_run_again(row: Lease, sent_at: datetime) -> bool:
    """Whether what was sent then, once the job had ended, has still to begin a new run."""
    is_before = row.state is State.DEAD and row.ended_at <= sent_at
    return (is_before or row.state is State.CANCELLED) and not row.cancels(sent_at)


def _standing(job: TreeJob, row: Lease | None) -> Lease | None:
    """The row, unless it is of an earlier run of the parent, or its own, and a later one comes."""
    if row and job.again_at and _is_to_run_again(row, job.again_at):
        return None
    if row is None or row.lineage is None or row.lineage.run >= job.since:
        return row
    return row if job.led_at and row.cancels(job.led_at) else None


def _child(lease: Lease, stage: str, n: int | str) -> str:
    return job_key(stage, child_id(lease.root, stage, lease.key, n))


def _collects(job: TreeJob, join: str, pipeline: Pipeline) -> int:
    """How many jobs a join of the job collects, as far as they are known.

    Jobs in the stage before the join count, and in their place those that have not got there.
    """
    has_led_on = job.lease is not None and job.state == State.SUCCEEDED and not job.lease.cut_off
    if not has_led_on or join not in pipeline.joins or job.stage == pipeline.collected(join):
        return 1
    leading = (child for child in job.children if pipeline.leads(child.stage, join))
    return sum(_collects(child, join, pipeline) for child in leading)
