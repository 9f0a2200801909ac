"""What people do with a job and all that descends from it, and how they see it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longhaul.domain.backfill import Backfill
from longhaul.domain.job_state import QUEUED, UNREADABLE, shown_state
from longhaul.domain.lease import Lease, State
from longhaul.domain.pipeline import Pipeline
from longhaul.domain.waiting import Wait
from longhaul.operations.view import JobStatus
from longhaul.ports import Backfills
from longhaul.settings import Stage
from longhaul.trees import WAITS, TreeJob, Trees

if TYPE_CHECKING:
    from longhaul.operations.cancel import Canceller


def status_without_row(job: TreeJob, root: str, wait: Wait | None = None) -> JobStatus:
    """How a job without a row, or with an unreadable one, stands.

    Args:
        job: The job.
        root: The id of the first job of its pipeline.
        wait: What the queued jobs of its stage wait for, if it is known.
    """
    return JobStatus(
        job_id=job.job_id,
        stage=job.stage,
        state=UNREADABLE if job.is_unreadable else QUEUED,
        root=root,
        waits_for=wait.what if wait else None,
    )


def not_started(lease: Lease, stages: Sequence[Stage]) -> str | None:
    """Which joins behind a job do not start, in words: it was sent there by hand."""
    pipeline = Pipeline(stages)
    joins = pipeline.not_opened_from(lease.stage) if lease.lineage is None else ()
    if not joins:
        return None
    openers = dict.fromkeys(pipeline.opener(join) for join in joins)
    return (
        f"{', '.join(joins)} will not start: a join belongs to a job of {' or '.join(openers)},"
        f" and this one was sent to {lease.stage} by hand"
    )


def unwell(tree: TreeJob) -> list[Lease]:
    """The rows of the jobs of a tree that ended otherwise than well, and can be run again."""
    rows = (job.lease for job in tree.all())
    return [row for row in rows if row is not None and row.state in (State.DEAD, State.CANCELLED)]


def stopping(tree: TreeJob) -> list[Lease]:
    """The rows of the jobs of a tree that are being cancelled."""
    rows = (job.lease for job in tree.all())
    return [row for row in rows if row is not None and shown_state(row) == "CANCELLING"]


def progress(tree: TreeJob) -> str:
    """How far a tree is, in words: `parse 6 of 7 (1 DEAD), sessions 3 of 7, report waits for 4`."""
    waiting: Counter[str] = Counter()
    for job in tree.all():
        waiting[job.stage] += job.waits_for
    return ", ".join(_of_stage(name, each, waiting[name]) for name, each in tree.counts().items())


_NAMED = (State.DEAD, State.CANCELLED, UNREADABLE)


def _of_stage(name: str, states: Counter[str], waits_for: int) -> str:
    if states[WAITS] == states.total() == 1:
        return f"{name} waits for {waits_for:,}"
    good = states[State.SUCCEEDED]
    rest = [f"{states[each]:,} {each}" for each in _NAMED if states[each]]
    return f"{name} {good:,} of {states.total():,}" + (f" ({', '.join(rest)})" if rest else "")


@dataclass(frozen=True)
class TreeCanceller:
    trees: Trees
    canceller: "Canceller"
    backfills: Backfills

    def cancel(self, lease: Lease) -> list[Lease]:
        """Cancel a job and what descends from it, also what is still queued; returns their rows.

        From the top, and again until nothing is left that was not cancelled: a job may have
        succeeded in between, and led to others. What is committed ends, and nothing follows it.
        """
        return self._cancel_all(lambda: self.trees.walk(lease))

    def cancel_backfill(self, backfill: Backfill) -> list[Lease]:
        """Cancel the jobs that a backfill has sent, and what descends from them.

        Its command sends no more, and cancels what it sends at this moment.
        """
        self.backfills.note_cancel(backfill.key, self.trees.leases.aws_time())

        def walk() -> TreeJob:
            # Its command may have sent more since it was read.
            now = self.backfills.find_backfills([backfill.key]).get(backfill.key)
            return self.trees.walk_backfill(now or backfill)

        return self._cancel_all(walk)

    def _cancel_all(self, walk: Callable[[], TreeJob]) -> list[Lease]:
        cancelled: dict[str, Lease] = {}
        while True:
            tree = walk()
            left = [job for job in tree.all() if job.is_open and job.key not in cancelled]
            if not left:
                return list(cancelled.values())
            # First the time with which all is compared that this walk has not met.
            for top in [tree] if tree.is_job else tree.children:
                if top.lease is not None and top.lease.lineage is None and not top.has_ended:
                    self.trees.leases.cancel_tree(top.key)
            for job in left:
                cancelled[job.key] = self.canceller.cancel(job.stage, job.job_id)
