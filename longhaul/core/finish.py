"""Do what an ended attempt still owes.

Settle, dispatcher and sweeper call this. Each act may be repeated, and is struck off once done.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import ceil

from aws_lambda_powertools import Logger

from longhaul.core import transitions
from longhaul.core.dead_letter import UNSENDABLE, Reason, dead_letter, reason_of
from longhaul.core.errors import (
    LeaseChangedError,
    UnfinishedError,
    VoidCommitError,
)
from longhaul.core.giving_up import GivingUp
from longhaul.core.lease import Lease, Owed, State
from longhaul.core.metrics import dimension
from longhaul.core.ports import Context
from longhaul.core.seams import Announcer, FollowOns, Publication, SavedWork, Trees
from longhaul.core.settlement import INTERNAL_ERROR

logger = Logger(child=True)


@dataclass(frozen=True, kw_only=True)
class Finisher:
    """Does what a row owes, after the row was written.

    State first, then SQS: a crash in between leaves the act owed, and it is repeated.
    """

    context: Context
    publication: Publication
    follow_ons: FollowOns
    trees: Trees
    saved: SavedWork
    announcer: Announcer
    giving_up: GivingUp

    def finish(self, lease: Lease, until: datetime | None = None) -> Lease:
        """Do what is owed, in order; returns the row after it.

        An act that raises stays owed, until it has raised too often in a row. A publication that is
        not done `until` then stays owed, and so does all that comes after it.
        """
        while lease.owed:
            owed = lease.owed[0]  # another finisher may have done more than one since
            try:
                cut_off = owed is Owed.FOLLOW_ONS and self._is_cancelled(lease)
                if not cut_off:
                    self._do(owed, lease, until)
                lease = self._strike(lease, owed, cut_off=cut_off)
            except UnfinishedError as error:
                logger.info("the rest goes on later", extra={"why": type(error).__name__})
                return lease
            except VoidCommitError:
                return self._run_again(lease, until)
            except LeaseChangedError as error:
                return self._changed(lease, error.current, until)
            except Exception as error:
                if not self.giving_up.is_due(lease.key, f"{lease.run} {owed}", error):
                    raise
                return self.finish(self._give_up(owed, lease, error), until)
            if owed is Owed.DELETE:
                self._measure(lease)
        return lease

    def _measure(self, lease: Lease) -> None:
        """Put what the job of a success has measured into the metrics.

        After the last act was struck off: its output is published, so it is not void any more, and
        a later repeat finds nothing owed. Two functions that strike it off in the same moment both
        measure, since a strike is repeatable: a sum may count a job twice, a maximum does not.
        """
        found = lease.results
        # A job that was cancelled before its first claim has neither results nor an input.
        if found is None or not found.metrics:
            return
        if (job := lease.input.job) is not None:
            self.context.metrics.put_of_job(found.metrics, stage=lease.stage, job=dimension(job))

    def release(self, lease: Lease, seconds: int) -> None:
        """Make the message visible in `seconds`.

        Without a handle that holds it, it becomes visible when its timeout lapses.
        """
        handle = lease.receive.receipt_handle
        if handle is not None:
            stage = self.context.settings.stage_or_removed(lease.stage)
            self.context.queue.set_visibility(stage.queue_url, handle, seconds)

    def settled(self, lease: Lease, retry_in_s: int | None, until: datetime | None = None) -> Lease:
        """After the write that ended an attempt: release the message, or finish."""
        if lease.state is State.RELEASED:
            self.release(lease, retry_in_s or 0)
            return lease
        return self.finish(lease, until)

    def _run_again(self, lease: Lease, until: datetime | None) -> Lease:
        """Reopen the job of a void commit: nothing of it is visible.

        What its attempt left is removed after the row has changed: until then it may be published.
        """
        try:
            reopened = self.publication.reopen(lease)
        except LeaseChangedError as error:
            return self._changed(lease, error.current, until)
        wait_s = self.context.left_s(reopened.retry_at) or 0
        settled = self.settled(reopened, ceil(max(0, wait_s)), until)
        self.publication.discard(lease.id)
        return settled

    def _changed(self, lease: Lease, current: Lease | None, until: datetime | None) -> Lease:
        """The row that won: of another function that finishes it, or of a new run.

        If its runner published meanwhile, no other function may come to finish it.
        """
        if current is None:
            return lease
        is_news = current.attempt.published_at and not lease.attempt.published_at
        return self.finish(current, until) if is_news and current.id == lease.id else current

    def _give_up(self, owed: Owed, lease: Lease, error: Exception) -> Lease:
        """The row without an act that cannot be done.

        What is not published, or does not follow, ends as a dead letter, and a redrive starts a new
        run. A dead letter that cannot be sent whole is sent in part.
        """
        if owed in (Owed.PUBLISH, Owed.FOLLOW_ONS):
            return self.giving_up.end(lease, error)
        if owed is Owed.DEAD_LETTER:
            self._send_in_part(lease)
        # A message that cannot be deleted comes again, and the dispatcher's answer deletes it.
        return self._strike(lease, owed)

    def _is_cancelled(self, lease: Lease) -> bool:
        """Whether a cancel of the job, or of its tree, covers its run: then nothing follows.

        Both rows are read now: a cancel that comes later finds the jobs that follow.
        """
        rows = self.context.leases.load_many({lease.key, lease.root})
        job, root = rows.get(lease.key), rows.get(lease.root)
        is_cancelled = job is not None and job.cancels(lease.asked_at)
        return is_cancelled or lease.is_cancelled_with_tree(root)

    def _strike(self, lease: Lease, owed: Owed, *, cut_off: bool = False) -> Lease:
        watches_tree = owed is Owed.DELETE and self.trees.begins_watch(lease)
        now = self.context.clock.now()
        return self.context.leases.apply(
            transitions.strike(lease, owed, now, cut_off=cut_off, watches_tree=watches_tree)
        )

    def _send_in_part(self, lease: Lease) -> None:
        queue_url = self.context.settings.stage(lease.stage).dead_letter_queue_url
        content = partial(self.context.requests.get, lease.request_ref)
        self.giving_up.send(queue_url, content, self._reason_of(lease))

    def _reason_of(self, lease: Lease) -> Reason:
        name = None if lease.is_mark else lease.id.execution_name
        arn = name and self.context.executions.arn(name)
        return reason_of(lease, arn, self._log_location(lease))

    def _do(self, owed: Owed, lease: Lease, until: datetime | None) -> None:
        stage = self.context.settings.stage_or_removed(lease.stage)
        match owed:
            case Owed.PUBLISH:
                if lease.attempt.published_at is None:
                    self.publication.publish(lease, until)
            case Owed.FOLLOW_ONS:
                for dead in self.follow_ons.send(lease):
                    self._finish_other(dead, until)
            case Owed.DEAD_LETTER if stage.is_removed:
                logger.warning("no queue for a dead letter: the stage was removed")
            case Owed.DEAD_LETTER if lease.last_class in (INTERNAL_ERROR, UNSENDABLE):
                self._send_in_part(lease)
            case Owed.DEAD_LETTER:
                letter = dead_letter(
                    self.context.requests.get(lease.request_ref), self._reason_of(lease)
                )
                self.context.queue.send(stage.dead_letter_queue_url, letter)
            case Owed.DELETE:
                self.trees.ends_again(lease)
                # Without a handle that holds the message, it comes again, and the dispatcher
                # deletes it because its row has ended.
                if lease.receive.receipt_handle is not None:
                    self.context.queue.delete(stage.queue_url, lease.receive.receipt_handle)
                self.saved.forget(lease)
                # Before the strike: a crash repeats it. What cannot be sent is owed apart.
                self.announcer.ended(lease, stage, until)

    def _finish_other(self, dead: Lease, until: datetime | None) -> None:
        """Finish another job. Its own row owes what fails, and not that of the job in hand."""
        try:
            self.finish(dead, until)
        except Exception:
            logger.exception("a sweep goes on with this", extra={"lease": dead.key})

    def _log_location(self, lease: Lease) -> str | None:
        """Group and stream of the last attempt's log, for a job run the group alone.

        None when its task never registered.
        """
        stream = self.context.engines.log_stream(lease.attempt)
        if stream is None:
            return self.context.settings.job_log_group if lease.attempt.task_arn else None
        return f"{self.context.settings.job_log_group}:{stream}"
