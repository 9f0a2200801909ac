"""Do what an ended attempt still owes.

Settle, dispatcher and sweeper call this. Each act may be repeated, and is struck off once done.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain, groupby
from math import ceil

from aws_lambda_powertools import Logger

from longhaul.core import transitions
from longhaul.core.context import Context
from longhaul.core.dead_letter import Reason, dead_letter, reason_of
from longhaul.core.errors import (
    InvalidRequestError,
    LeaseChangedError,
    UnfinishedError,
    VoidCommitError,
)
from longhaul.core.giving_up import GivingUp, refuse
from longhaul.core.history import log_stream
from longhaul.core.lease import Lease, Owed, Receive, State, emitted_ref, job_key
from longhaul.core.message import Message, follow_on
from longhaul.core.metrics import dimension
from longhaul.core.request import read_request
from longhaul.core.settings import Stage
from longhaul.core.settlement import INTERNAL_ERROR
from longhaul.core.verdict import shorten
from longhaul.notices.announcer import Announcer
from longhaul.outputs.publication import Publication
from longhaul.pipelines.follow_ons import (
    Complete,
    Emitted,
    FollowOn,
    Join,
    follow_ons,
    inputs_problem,
    joined,
    replaced,
)
from longhaul.pipelines.tree_ends import TreeEnds

logger = Logger(child=True)

UNSENDABLE = "unsendable"


@dataclass(frozen=True, kw_only=True)
class Finisher:
    """Does what a row owes, after the row was written.

    State first, then SQS: a crash in between leaves the act owed, and it is repeated.
    """

    context: Context
    publication: Publication
    announcer: Announcer
    giving_up: GivingUp
    tree_ends: TreeEnds

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
        self.publication.discard(lease)
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
        sent_at = lease.receive.first_sent_at or lease.attempt.claimed_at
        rows = self.context.leases.load_many({lease.key, lease.root})
        job, root = rows.get(lease.key), rows.get(lease.root)
        is_cancelled = job is not None and job.cancels(sent_at)
        return is_cancelled or lease.is_cancelled_with_tree(root)

    def _strike(self, lease: Lease, owed: Owed, *, cut_off: bool = False) -> Lease:
        watches_tree = owed is Owed.DELETE and self.tree_ends.begins_watch(lease)
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
                self._follow_on(lease, until)
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
                self.tree_ends.ends_again(lease)
                # Without a handle that holds the message, it comes again, and the dispatcher
                # deletes it because its row has ended.
                if lease.receive.receipt_handle is not None:
                    self.context.queue.delete(stage.queue_url, lease.receive.receipt_handle)
                if lease.saved_ref is not None and lease.state is not State.DEAD:
                    self._remove_saved(lease)
                # Before the strike: a crash repeats it. What cannot be sent is owed apart.
                self.announcer.ended(lease, stage, until)

    def _remove_saved(self, lease: Lease) -> None:
        """Remove what the run had stored; what is left is the sweeper's."""
        try:
            self.context.saved.remove(lease.id)
        except Exception as error:  # noqa: BLE001 - nothing waits for it
            logger.warning("what it stored is left", extra={"error": type(error).__name__})

    def _follow_on(self, lease: Lease, until: datetime | None) -> None:
        """Send what follows a success, and start the joins that it completes.

        The job's message stays until all of it is in its queues.
        """
        emitted, output = None, lease.attempt.output
        if output and output.emitted is not None:
            emitted = self.context.requests.get_emitted(emitted_ref(lease.id))
        sent: Counter[str] = Counter()

        def messages(jobs: Iterable[FollowOn]) -> Iterator[Message]:
            group_id = self.context.requests.get(lease.request_ref).group_id
            for job in jobs:
                sent[job.stage] += 1
                yield follow_on(job.body, lease.ended_at, group_id)

        # Before anything is sent: a job that follows must not come to a join that does not wait
        # for it yet.
        started = list(self._jobs_of_complete_joins(lease, emitted, until))
        # One stage after the other, and a batch at a time: all bodies together may be too much for
        # a function's memory.
        jobs_to_send = chain(follow_ons(lease, emitted, self.context.settings), started)
        for name, jobs in groupby(jobs_to_send, key=lambda job: job.stage):
            stage = self.context.settings.stage_or_removed(name)
            if stage.is_removed:
                self._dead_letter_orphans(lease, name, messages(jobs))
                continue
            for message, problem in self.context.queue.send_many(stage.queue_url, messages(jobs)):
                why = shorten(f"SQS refuses this job: {problem}")
                self._refuse(stage, message, UNSENDABLE, why, until)
        logger.info("followed on", extra={"lease": lease.key, "jobs": dict(sent)})

    def _dead_letter_orphans(self, lease: Lease, name: str, messages: Iterable[Message]) -> None:
        """Dead-letter what the job emitted for a stage that was taken out since, in its own."""
        stage = self.context.settings.stage_or_removed(lease.stage)
        why = (
            f"stage {name} was taken out: submit this request to another, without job_id and"
            " lineage (of a join, lineage.inputs_ref names the object with its inputs)"
        )
        for message in messages:
            if stage.is_removed:
                logger.warning("no queue for a dead letter: both stages were removed")
                continue
            key = job_key(stage.name, json.loads(message.body)["job_id"])
            reason = Reason(kind=UNSENDABLE, reason=why, key=key)
            self._send_now(stage, message, reason)
            # The stage has no queue for the letter, so the row says only that the job is dead.
            self._refuse(self.context.settings.stage_or_removed(name), message, UNSENDABLE, why)

    def _refuse(
        self, stage: Stage, message: Message, kind: str, why: str, until: datetime | None = None
    ) -> None:
        """End a follow-on that can never start: it must neither stay owed nor be forgotten."""
        key = job_key(stage.name, json.loads(message.body)["job_id"])
        reason = Reason(kind=kind, reason=why, key=key)
        request = None
        with suppress(InvalidRequestError):  # of a join without all its inputs
            request = read_request(message.body, self.context.settings.paths.data_bucket)
        dead = refuse(self.context, stage, message, reason, Receive(""), request=request)
        logger.error("a follow-on cannot start: dead", extra={"lease": key, "class": kind})
        if dead is not None:
            try:
                self.finish(dead, until)
            except Exception:  # its own row owes the rest, and not that of the job that led to it
                logger.exception("a sweep goes on with this", extra={"lease": key})
        elif not stage.is_removed:  # the row of its id is of another message
            self._send_now(stage, message, reason)

    def _send_now(self, stage: Stage, message: Message, reason: Reason) -> None:
        self.giving_up.send(stage.dead_letter_queue_url, lambda: message, reason)

    def _jobs_of_complete_joins(
        self, lease: Lease, emitted: Emitted | None, until: datetime | None
    ) -> Iterator[FollowOn]:
        """The jobs of the joins that wait for nothing more."""
        for each in replaced(lease, emitted, self.context.settings):
            complete = self.context.joins.note_success(each, self.context.clock.now())
            if complete is not None and (job := self._start(each.join, complete, until)):
                yield job

    def _start(self, join: Join, complete: Complete, until: datetime | None) -> FollowOn | None:
        opener = self.context.leases.load(join.of)
        noted = replace(join, lineage=complete.lineage)
        found = joined(noted, complete.outputs, opener, self.context.settings)
        self.context.requests.put_inputs(found.inputs_ref, found.inputs)
        if problem := inputs_problem(len(found.inputs)):
            stage = self.context.settings.stage(found.job.stage)
            self._refuse(stage, Message(found.job.body, {}), "incomplete_join", problem, until)
            return None
        return found.job

    def _log_location(self, lease: Lease) -> str | None:
        """Group and stream of the last attempt's log, for a job run the group alone.

        None when its task never registered.
        """
        stream = log_stream(lease.attempt)
        if stream is None:
            return self.context.settings.job_log_group if lease.attempt.task_arn else None
        return f"{self.context.settings.job_log_group}:{stream}"
