"""The actions of the page, with the commands' own use cases."""

from collections.abc import Sequence
from dataclasses import dataclass

from longhaul.cli.display.dead_letter import name_of
from longhaul.cli.display.job import cancelled_as, is_stopped
from longhaul.cli.display.text import counted
from longhaul.cli.target import Target
from longhaul.domain.backfill import Backfill
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.lease import Lease, job_key
from longhaul.operations.dead_letters import Which
from longhaul.operations.errors import NotRetriableError
from longhaul.operations.tree import unwell

_NAMED = 5  # jobs that a result names


@dataclass(frozen=True)
class Notice:
    """The result of an action."""

    text: str
    good: bool = True


class Actions:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._sent: set[tuple[str, int]] = set()  # key and run of what was sent again

    def has_sent(self, row: Lease) -> bool:
        """Whether this page has sent the job again since it ended: its row does not say so."""
        return (row.key, row.run) in self._sent

    def cancel(self, stage: str, job_id: str) -> Notice:
        lease = self._target.canceller.cancel(stage, job_id)
        return Notice(
            f"{job_id}: {cancelled_as(lease)}",
            good=is_stopped(lease),
        )

    def cancel_tree(self, stage: str, job_id: str) -> Notice:
        """Cancel a job and all that descends from it, or the jobs of a backfill."""
        found = self.find(stage, job_id)
        if found is None:
            return Notice(f"nothing is known of {job_id}", good=False)
        canceller = self._target.tree_canceller
        rows = (
            canceller.cancel_backfill(found)
            if isinstance(found, Backfill)
            else canceller.cancel(found)
        )
        return Notice(f"{counted(len(rows), 'job')} of {job_id} cancelled")

    def rerun_tree(self, stage: str, job_id: str) -> Notice:
        """Run again what died or was cancelled below a job, itself included, or of a backfill."""
        found = self.find(stage, job_id)
        if found is None:
            return Notice(f"nothing is known of {job_id}", good=False)
        trees = self._target.trees
        tree = trees.walk_backfill(found) if isinstance(found, Backfill) else trees.walk(found)
        return self.rerun_all([row.key for row in unwell(tree)])

    def find(self, stage: str, name: str) -> Lease | Backfill | None:
        """The row of a job, or the backfill of that name."""
        key, parts = job_key(stage, name), self._target.parts
        row = parts.leases.load(key)
        if row is not None and not row.is_open_mark:
            return row
        return parts.backfills.find_backfills([key]).get(key) or row

    def cancel_all(self, keys: Sequence[str]) -> Notice:
        """Cancel exactly these jobs, each by itself."""
        ended: list[str] = []
        for key in keys:
            stage, _, job_id = key.partition("#")
            lease = self._target.canceller.cancel(stage, job_id)
            if not is_stopped(lease):
                ended.append(job_id)
        text = f"{counted(len(keys) - len(ended), 'job')} cancelled"
        return Notice(
            "; ".join([text, *_not("had ended before, or committed", ended)]), good=not ended
        )

    def rerun_all(self, keys: Sequence[str]) -> Notice:
        """Run exactly these jobs again, as far as each can."""
        if not keys:
            return Notice("none has died or was cancelled", good=False)
        rows = self._target.parts.leases.load_many(keys)
        refused: list[str] = []
        for row in rows.values():
            try:
                self._target.rerunner.send(self._target.rerunner.plan(row))
                self._sent.add((row.key, row.run))
            except (NotRetriableError, InvalidRequestError):
                refused.append(row.job_id)
        text = f"{counted(len(rows) - len(refused), 'job')} sent again"
        return Notice(
            "; ".join([text, *_not("cannot run again now", refused)]),
            good=not refused and len(rows) == len(keys),
        )

    def pause(self, stage: str) -> Notice:
        """Let no job of a stage start."""
        target = self._target
        target.parts.slots.pause(target.stage(stage), target.parts.clock.now())
        return Notice(f"{stage} is paused: what runs goes on, and messages wait")

    def resume(self, stage: str) -> Notice:
        """Let the jobs of a paused stage start again."""
        target = self._target
        target.parts.slots.resume(target.stage(stage), target.parts.clock.now())
        return Notice(f"{stage} goes on: what waits is looked at within half an hour")

    def rerun(self, stage: str, job_id: str) -> Notice:
        """Run an ended job again with its request, and what followed from it."""
        lease = self._target.parts.leases.load(job_key(stage, job_id))
        if lease is None:
            return Notice(f"nothing is known of job {job_id}", good=False)
        self._target.open_stage(stage)
        planned = self._target.rerunner.plan(lease)
        self._target.rerunner.send(planned)
        self._sent.add((lease.key, lease.run))
        return Notice(f"{job_id} runs again")

    def redrive(self, stage: str, message_ids: Sequence[str]) -> Notice:
        """Send back exactly these letters; later ones are left alone."""
        where = self._target.stage(stage)
        handled = self._target.dead_letters.redrive(
            where, Which(message_ids=frozenset(message_ids))
        )
        parts = [f"{handled.done} sent back to the jobs queue"]
        parts += [f"{name_of(letter)} was not: {problem}" for letter, problem in handled.failed]
        gone = len(set(message_ids)) - handled.done - len(handled.failed)
        parts += [f"{gone} were no longer there, or another process holds them"] if gone else []
        return Notice("; ".join(parts), good=handled.done == len(set(message_ids)))


def _not(why: str, job_ids: Sequence[str]) -> list[str]:
    """What was left out, in words."""
    if not job_ids:
        return []
    more = f" and {len(job_ids) - _NAMED} more" if len(job_ids) > _NAMED else ""
    return [f"{', '.join(job_ids[:_NAMED])}{more} {why}"]
