"""What people do with a job and all that descends from it, and how they see it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longhaul.core.lease import QUEUED, UNREADABLE, Lease, State
from longhaul.core.pace import SlotUse
from longhaul.core.settings import Stage
from longhaul.operations.view import JobStatus, Wait, job_status, wait_for_slot
from longhaul.pipelines.backfill import Backfill, Backfills
from longhaul.pipelines.pipeline import Pipeline
from longhaul.pipelines.trees import WAITS, Trees
from longhaul.pipelines.trees import TreeJob as TreeJob

if TYPE_CHECKING:
    from longhaul.operations.cancel import Canceller
    from longhaul.operations.stack import Stack


def uses_for(stack: "Stack", tree: TreeJob) -> Mapping[str, SlotUse]:
    """The slots of the stages in which jobs of a tree wait: a `GetItem` for each."""
    wait = {job.stage for job in tree.all() if job.state in (QUEUED, State.RELEASED)}
    # A stage may have been taken out.
    stages = [each for each in stack.settings.stages if each.name in wait]
    return {each.name: stack.parts.slots.use(each) for each in stages}


def statuses(stack: "Stack", tree: TreeJob) -> dict[str, JobStatus]:
    """How the jobs of a tree stand, by key and in its order; without the joins that wait."""
    uses, now = uses_for(stack, tree), stack.parts.clock.now()
    found = {}
    for job in tree.all():
        if job.lease is not None:
            executions = stack.parts.executions
            found[job.key] = job_status(job.lease, stack.settings, executions, now, uses)
        elif job.state != WAITS:
            wait = wait_for_slot(uses.get(job.stage)) or Wait("message")
            found[job.key] = JobStatus(
                job_id=job.job_id,
                stage=job.stage,
                state=UNREADABLE if job.is_unreadable else QUEUED,
                name=job.job_id,
                root=tree.root_id,
                waits_for=None if job.is_unreadable else wait.what,
            )
    return found


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
    return [row for row in rows if row is not None and row.shown_state == "CANCELLING"]


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
