"""Tell that a tree has ended: a root's stage with `tree_ended`.

The root's row is watched from its success on. Each sweep looks at the watched trees, tells of those
of which nothing goes on, and ends their watch. A job that ends a second time begins it again before
its own end is done, so that no look takes the first end for the second. docs/events.md says what
that promises, decision 0027 why it is done so.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from aws_lambda_powertools import Logger

from longhaul.announcing import Announcer
from longhaul.context import Context
from longhaul.domain import transitions
from longhaul.domain.errors import ContendedError, LeaseChangedError, NotNotifiedError
from longhaul.domain.lease import Lease, State
from longhaul.domain.tree_end import (
    MAX_UNWELL,
    TreeEnd,
    TreeWatch,
    Unwell,
    begun,
    told,
    untold,
    waiting,
)
from longhaul.settings import Stage
from longhaul.trees import TreeJob, Trees

logger = Logger(child=True)

_PAGE: Final = 100
_TRIES: Final = 8


@dataclass(frozen=True, kw_only=True)
class TreeEnds:
    context: Context
    announcer: Announcer

    def begins_watch(self, lease: Lease) -> bool:
        """Whether a job whose last act is struck off is the root of a tree to be told of."""
        stage = self.context.settings.stage_or_removed(lease.stage)
        return stage.tells_trees and lease.may_begin_tree

    def ends_again(self, lease: Lease) -> None:
        """Before the last act of a job of a tree: watch the tree again if it may have been told.

        Not for a job that ends for the first time: until then it is queued or runs, and its tree
        has not ended. Nor while its root owes something: the root's own end begins the watch.

        Raises:
            ContendedError: other jobs of the tree ended at the same moment, again and again.
        """
        if lease.lineage is None:
            return
        stage = self.context.settings.stage_or_removed(lease.root.partition("#")[0])
        if not stage.tells_trees:
            return
        # What was refused looked dead, until its letter was sent again.
        if not (lease.may_have_ended_before or self.context.refusals.was_refused(lease.key)):
            return
        root = self.context.leases.load(lease.root)
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

    def watched(self, stage: Stage) -> Iterator[tuple[Lease, bool]]:
        """The roots of the stage's watched trees; and whether a look at the tree is worthwhile.

        It is not while the job that the last look met goes on: a row for each tree is read then.
        """
        keys = self.context.index.watched_keys(stage.name)
        while page := list(islice(keys, _PAGE)):
            roots = [row for row in self.context.leases.load_many(page).values() if row.is_watched]
            open_keys = self._open([_watch(root).waits_for for root in roots])
            for root in roots:
                yield root, _watch(root).waits_for not in open_keys

    def tell_end(self, root: Lease, stage: Stage, until: datetime | None = None) -> bool:
        """Look at a watched tree, and tell of its end if it has ended; returns whether it has.

        Raises:
            TimeUpError: `until` came before all of it was looked at.
            NotNotifiedError: it has ended, and the notice is to be tried again.
        """
        watch = _watch(root)
        look = self._trees().look_through(root, lambda: self._is_over(until))
        try:
            if look.open is not None:
                if look.open != watch.waits_for:
                    self.context.leases.apply(transitions.watch(root, waiting(watch, look.open)))
                return False
            # A success whose jobs were all refused by SQS has led to none, as a root that died has.
            if look.tree.children:
                self._announce(root, stage, look.tree, until)
            self.context.leases.apply(transitions.watch(root, told(watch)))
        except LeaseChangedError:
            return False  # a job of it has ended again, or another sweep was first
        return True

    def _announce(self, root: Lease, stage: Stage, tree: TreeJob, until: datetime | None) -> None:
        watch = _watch(root)
        first = watch.untold_ms
        tried_at = None if first is None else datetime.fromtimestamp(first / 1000, UTC)
        try:
            self.announcer.tree_ended(root, _end(tree, watch), stage, tried_at, until)
        except NotNotifiedError:
            if first is None:
                now = self.context.clock.now()
                self.context.leases.apply(transitions.watch(root, untold(watch, now)))
            raise

    def _open(self, keys: Sequence[str | None]) -> set[str]:
        """Those of the jobs that have not ended, refused ones apart."""
        jobs = [TreeJob(key, None) for key in dict.fromkeys(keys) if key is not None]
        self._trees().read_rows(jobs)
        return {job.key for job in jobs if job.is_open}

    def _trees(self) -> Trees:
        found = self.context
        return Trees(found.settings, found.leases, found.refusals, found.requests)

    def _is_over(self, until: datetime | None) -> bool:
        return until is not None and self.context.clock.now() >= until


def _watch(root: Lease) -> TreeWatch:
    if root.tree is None:
        raise ValueError(f"{root.key} is not watched")
    return root.tree


def _end(tree: TreeJob, watch: TreeWatch) -> TreeEnd:
    jobs = list(tree.all())
    unwell = (job for job in jobs if job.state in (State.DEAD, State.CANCELLED))
    ends = [job.lease.ended_at for job in jobs if job.lease is not None]
    ends += [job.refusal.refused_at for job in jobs if job.lease is None and job.refusal]
    return TreeEnd(
        jobs=tree.counts(),
        unwell=tuple(map(_unwell, islice(unwell, MAX_UNWELL))),
        ended_at=max(ends),
        sequence=watch.ends,
        digest=_digest(jobs),
    )


def _digest(jobs: Iterable[TreeJob]) -> str:
    """Tells one end from another: each later end has a run more, or a later one."""
    ends = hashlib.sha256()
    for job in jobs:
        ends.update(f"{job.key} {job.lease.run if job.lease else 0} {job.state}\n".encode())
    return ends.hexdigest()[:16]


def _unwell(job: TreeJob) -> Unwell:
    row, refusal = job.lease, job.refusal
    kind = row.last_class if row else refusal.kind if refusal else None
    return Unwell(job.stage, job.job_id, row.label if row else None, job.state, kind)
