"""Tell that a tree, or all of a backfill, has ended: a root's stage with `tree_ended`.

The row of a root is watched from its success on, and a backfill from its first job on. Each sweep
looks at what is watched, tells of what has ended, and ends the watch. A job that ends a second time
begins it again before its own end is done, so that no look takes the first end for the second.
docs/reference/events.md says what that promises, decision 0027 why it is done so.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Final, Protocol

from aws_lambda_powertools import Logger

from longhaul.core import transitions
from longhaul.core.descent import TreeWatch, begun
from longhaul.core.errors import ContendedError, LeaseChangedError, UnfinishedError
from longhaul.core.lease import Lease, State
from longhaul.core.ports import Context
from longhaul.core.settings import Stage
from longhaul.core.sweep import Sweep
from longhaul.pipelines.backfill import (
    MAX_UNWELL,
    Backfill,
    Backfills,
    TreeEnd,
    Unwell,
    may_be_of,
)
from longhaul.pipelines.follow_ons import Joins
from longhaul.pipelines.trees import Look, TreeJob, Trees

logger = Logger(child=True)

_PAGE: Final = 100
_BACKFILLS: Final = 10
"""Read at a time: one has 10,000 jobs at most, whose ids are in its item."""
_TRIES: Final = 8


class TreeAnnouncer(Protocol):
    def tree_ended(
        self, root: Lease | Backfill, end: TreeEnd, stage: Stage, until: datetime | None = None
    ) -> None:
        """Tell that a tree, or a backfill, has ended; repeatable.

        Args:
            root: The row of its first job; or the backfill.
            end: How it has ended.
            stage: The stage of its first job.
            until: When there is no time left to try it.
        """


@dataclass(frozen=True, kw_only=True)
class TreeEnds:
    context: Context
    joins: Joins
    backfills: Backfills
    announcer: TreeAnnouncer

    def begins_watch(self, lease: Lease) -> bool:
        """Whether a job whose last act is struck off is the root of a tree to be told of."""
        stage = self.context.settings.stage_or_removed(lease.stage)
        return stage.tells_trees and _may_begin_tree(lease)

    def ends_again(self, lease: Lease) -> None:
        """Before the last act of a job: watch its tree and its backfill again that may be told.

        Not for a job that ends for the first time: until then it is queued or runs, and its tree
        has not ended.

        Raises:
            ContendedError: other jobs of the tree ended at the same moment, again and again.
        """
        backfill = may_be_of(lease.root)
        if lease.lineage is None and backfill is None:
            return
        stage = self.context.settings.stage_or_removed(lease.root.partition("#")[0])
        if not stage.tells_trees:
            return
        # By an earlier run, or by a cancel before its claim.
        if not (lease.again or lease.dead_runs or lease.cancelled_at):
            return
        if backfill is not None:
            self.backfills.watch_again(backfill, lease.root, self.context.clock.now())
        if lease.lineage is not None:
            self._watch_root_again(lease.root)

    def _watch_root_again(self, key: str) -> None:
        """Not while the root owes something: its own end begins the watch."""
        root = self.context.leases.load(key)
        for _ in range(_TRIES):
            if root is None or not root.is_finished:
                return
            try:
                self.context.leases.apply(transitions.watch(root, begun(root.tree)))
            except LeaseChangedError as error:
                root = error.current
            else:
                return
        raise ContendedError("other jobs of its tree end at the same moment")

    def look_after(self, sweep: Sweep) -> None:
        """Tell of the trees that have ended; the next sweep does what there is no time for."""
        for stage in self.context.settings.stages:
            if not stage.tells_trees:
                continue
            watched: list[tuple[Lease | Backfill, bool]] = []
            with sweep.guard(stage.name):
                watched = sweep.shuffled(self.watched(stage))
            for root, is_worthwhile in watched:
                if is_worthwhile:
                    label = root.label if isinstance(root, Lease) else None
                    with sweep.guard(root.key, label), suppress(UnfinishedError):
                        until = sweep.report.publish_until
                        sweep.report.trees_told += self.tell_end(root, stage, until)

    def watched(self, stage: Stage) -> Iterator[tuple[Lease | Backfill, bool]]:
        """The stage's watched roots and backfills; and whether a look at the tree is worthwhile.

        It is not while the job that the last look met goes on: a row for each tree is read then.
        Nor while a backfill has jobs to send.
        """
        for roots in self._watched(stage.name):
            open_keys = self._open([_watch(root).waits_for for root in roots])
            for root in roots:
                is_sending = isinstance(root, Backfill) and root.is_sending
                yield root, not is_sending and _watch(root).waits_for not in open_keys

    def _watched(self, stage: str) -> Iterator[Sequence[Lease | Backfill]]:
        keys = self.context.leases.open_keys(stage, "TREE")
        while page := list(islice(keys, _PAGE)):
            rows = self.context.leases.load_many(page)
            yield [row for row in rows.values() if row.is_watched]
        keys = self.context.leases.open_keys(stage, "BACKFILL")
        while page := list(islice(keys, _BACKFILLS)):
            found = self.backfills.find_backfills(page)
            yield [each for each in found.values() if each.is_watched]

    def tell_end(self, root: Lease | Backfill, stage: Stage, until: datetime | None = None) -> bool:
        """Look at what is watched, and tell of its end if it has ended; returns whether it has.

        Raises:
            TimeUpError: `until` came before all of it was looked at.
        """
        watch = _watch(root)
        look = self._look(root, until)
        if look is None:
            return False
        if look.open is not None:
            if look.open != watch.waits_for:
                self._note(root, waiting(watch, look.open))
            return False
        # A success whose jobs were all refused by SQS has led to none, as a root that died has.
        if look.tree.children:
            unsent = root.unsent if isinstance(root, Backfill) else 0
            end = _end(look.tree, watch, unsent)
            self.announcer.tree_ended(root, end, stage, until)
        # Not if a job of it has ended again, or another sweep was first.
        return self._note(root, told(watch))

    def _look(self, root: Lease | Backfill, until: datetime | None) -> Look | None:
        """None: it is not what it was."""
        trees = self._trees()
        if isinstance(root, Lease):
            return trees.look_through(root, lambda: self._is_over(until))
        look = trees.look_through_backfill(root, lambda: self._is_over(until))
        # Its command may have noted more jobs meanwhile: then it had not ended.
        now = self.backfills.find_backfills([root.key]).get(root.key)
        return look if now == root else None

    def _note(self, root: Lease | Backfill, after: TreeWatch) -> bool:
        """Note it in what is watched; False if that has changed since it was read."""
        if isinstance(root, Backfill):
            return self.backfills.note_look(root.key, _watch(root), after)
        try:
            self.context.leases.apply(transitions.watch(root, after))
        except LeaseChangedError:
            return False
        return True

    def _open(self, keys: Sequence[str | None]) -> set[str]:
        """Those of the jobs that have not ended, or cannot be read."""
        jobs = [TreeJob(key, None) for key in dict.fromkeys(keys) if key is not None]
        self._trees().read_rows(jobs)
        return {job.key for job in jobs if job.may_go_on}

    def _trees(self) -> Trees:
        found = self.context
        return Trees(found.settings, found.leases, self.joins)

    def _is_over(self, until: datetime | None) -> bool:
        return until is not None and self.context.clock.now() >= until


def _watch(root: Lease | Backfill) -> TreeWatch:
    watch = root.tree if isinstance(root, Lease) else root.watch
    if watch is None:
        raise ValueError(f"{root.key} is not watched")
    return watch


def told(watch: TreeWatch) -> TreeWatch:
    return TreeWatch(watch.ends, told=watch.ends)


def waiting(watch: TreeWatch, key: str) -> TreeWatch:
    """The watch after a look that met an open job."""
    return replace(watch, waits_for=key, stored=None)


def _may_begin_tree(lease: Lease) -> bool:
    """Whether it is a root whose success may have led to other jobs."""
    output = lease.attempt.output
    if lease.state is not State.SUCCEEDED or lease.lineage is not None or output is None:
        return False
    led_to = lease.leads_to if output.emitted is None else any(output.emitted.values())
    return bool(led_to or lease.opens)


def _end(tree: TreeJob, watch: TreeWatch, unsent: int) -> TreeEnd:
    jobs = list(tree.all())
    unwell = (job for job in jobs if job.state in (State.DEAD, State.CANCELLED))
    ends = [job.lease.ended_at for job in jobs if job.lease is not None]
    return TreeEnd(
        jobs=tree.counts(),
        unwell=tuple(map(_unwell, islice(unwell, MAX_UNWELL))),
        ended_at=max(ends),
        sequence=watch.ends,
        digest=_digest(jobs),
        unsent=unsent,
    )


def _digest(jobs: Iterable[TreeJob]) -> str:
    """Tells one end from another: each later end has a run more, or a later one."""
    ends = hashlib.sha256()
    for job in jobs:
        ends.update(f"{job.key} {job.lease.run if job.lease else 0} {job.state}\n".encode())
    return ends.hexdigest()[:16]


def _unwell(job: TreeJob) -> Unwell:
    row = job.lease
    return Unwell(
        job.stage,
        job.job_id,
        row.label if row else None,
        job.state,
        row.last_class if row else None,
    )
