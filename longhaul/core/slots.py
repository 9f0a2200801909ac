"""Start attempts in the free slots of a stage, and put the messages that wait back.

Nothing runs while messages wait: each comes again after a part of its likely wait.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice

from aws_lambda_powertools import Logger

from longhaul.core import beat, transitions
from longhaul.core.batch import Batch, Closed, Known, Messages
from longhaul.core.claim import (
    Claim,
    claimed,
    may_claim_without_message,
    next_attempt,
)
from longhaul.core.errors import LeaseChangedError, NoFreeSlotError
from longhaul.core.lease import Lease, State, with_emission, with_next
from longhaul.core.logs import about
from longhaul.core.message import JobMessage
from longhaul.core.pace import Pace
from longhaul.core.ports import Context
from longhaul.core.seams import Descent
from longhaul.core.settings import Stage

logger = Logger(child=True)

_LOOKED_AT = 100
"""Released jobs of a stage that are looked at: one read of the index, one of the rows."""


_STOPPING_S = 15
"""Wait for the task of the previous run to end.

Most end within seconds, one that ignores SIGTERM after `stop_timeout_s`.
"""


@dataclass(frozen=True, kw_only=True)
class Claimer:
    context: Context
    messages: Messages
    descent: Descent

    def first(self, batch: Batch) -> list[tuple[JobMessage, Claim]]:
        """The claims that may take the free slots, retries first, taken out of those that wait."""
        waiting = sorted(batch.waiting, key=lambda each: not _is_retry(each[1].replaces))
        chosen = waiting[: batch.room.free]
        for each in chosen:  # other threads may append meanwhile
            batch.waiting.remove(each)
        return chosen

    def claim(self, claims: Sequence[tuple[JobMessage, Claim]], batch: Batch) -> list[Known]:
        """Claim and start, in parallel; returns the messages whose rows have changed.

        A message whose slot another dispatcher took waits again.
        """
        pace = batch.room.after(len(claims), self.context.clock.now())
        tasks = [partial(self._claim, message, claim, batch, pace) for message, claim in claims]
        changed = self.context.background.run_all(tasks, at_once=len(tasks))
        return [known for known in changed if known is not None]

    def _claim(self, message: JobMessage, claim: Claim, batch: Batch, pace: Pace) -> Known | None:
        now = self.context.clock.now()
        if batch.is_over(now):
            return None
        with self.messages.guard(batch, message):
            # Now: the wait for a slot does not count as the attempt's age.
            lease = claimed(claim, message, batch.stage, self.context.timing, now)
            try:
                with about(lease.id, lease.label):
                    self._claim_for(message, claim, lease, batch, pace)
            except NoFreeSlotError:
                batch.waiting.append((message, claim))
            except LeaseChangedError as error:
                return message, error.current
        return None

    def _claim_for(
        self, message: JobMessage, claim: Claim, lease: Lease, batch: Batch, pace: Pace
    ) -> None:
        if self._is_task_left(claim.replaces, message):
            self.messages.postpone(batch, message, _STOPPING_S)
            return
        if claim.starts_run:
            lease = self._with_run(message, lease)
        closed_as = self._start(claim.replaces, lease, batch, pace)
        if closed_as is not None:
            batch.slow.append((message, Closed(lease.id, closed_as)))
        else:
            self._hold_until_first_beat(message, lease, batch)

    def _with_run(self, message: JobMessage, lease: Lease) -> Lease:
        """The row with what belongs to its run; the request is stored beside it."""
        self.context.requests.put(lease.request_ref, message.content)
        return with_next(self.descent.with_joins(lease), self.context.settings)

    def _start(self, before: Lease | None, lease: Lease, batch: Batch, pace: Pace) -> str | None:
        """Write the claim, and start its execution.

        Returns the status in which that has closed already; None while it runs.
        """
        lease = with_emission(lease, batch.stage)
        self.context.leases.apply(transitions.claim(before, lease, batch.stage, pace))
        batch.started.append(lease.receive.message_id)
        logger.info(
            "job claimed",
            extra={
                "lease": lease.key,
                "run": lease.run,
                "receive_count": lease.receive.receive_count,
            },
        )
        return self.context.executions.ensure_started(
            lease.id.execution_name, lease.execution_input
        )

    def probe(self, message: JobMessage, lease: Lease, batch: Batch) -> None:
        """The row says RUNNING: start its execution again, with the row's name and input.

        It runs, or starts now because a dispatcher died between claim and start: adopt this
        receive. It has closed without a settle: settle it.
        """
        closed_as = self.context.executions.ensure_started(
            lease.id.execution_name, lease.execution_input
        )
        row = self._adopt(lease, message)
        if closed_as is not None:
            batch.slow.append((message, Closed(lease.id, closed_as)))
            return
        if row is None:
            return
        age_s = (self.context.clock.now() - row.attempt.claimed_at).total_seconds()
        wait_s = beat.interval_s(age_s, self.context.timing)
        self.messages.hold(batch, message, beat.visibility_s(wait_s, 0, self.context.timing))
        logger.info(
            "running job adopted",
            extra={"lease": lease.key, "receive_count": message.receive_count},
        )

    def _adopt(self, lease: Lease, message: JobMessage) -> Lease | None:
        """The row with this receive; None when a later receive of the message was adopted first.

        Then the row has the later receive's handle, and ours no longer holds the message.
        """
        try:
            return self.context.leases.report(transitions.adopt(lease, message))
        except LeaseChangedError as error:
            if (
                error.current is None
                or not error.current.owns(lease.id)
                or not error.current.has_seen(message.message_id, message.receive_count)
            ):
                raise
            logger.info("a later receive was adopted first", extra={"lease": lease.key})
            return None

    def _hold_until_first_beat(self, message: JobMessage, lease: Lease, batch: Batch) -> None:
        """Extend the message where the queue's visibility ends before the first beat."""
        wait_s = lease.input.first_wait_s
        held_s = (self.context.clock.now() - message.received_at).total_seconds()
        if beat.must_extend(wait_s, held_s):
            seconds = beat.visibility_s(wait_s, held_s, self.context.timing)
            self.messages.hold(batch, message, seconds)

    def _is_task_left(self, before: Lease | None, message: JobMessage) -> bool:
        """Whether the task of the attempt before still runs; it is stopped then.

        A released message becomes visible after that task is gone. The message of a job that is
        submitted again may come sooner.
        """
        if before is None or before.attempt.is_over:
            return False
        task_arn = before.attempt.task_arn
        if task_arn is None or before.receive.message_id == message.message_id:
            return False
        why = "Longhaul: the job was submitted again"
        stopped = self.context.tasks.stop(task_arn, before.id, why)
        if not stopped.is_gone:
            logger.info(
                "the task of the run before may still run: a new run waits for its end",
                extra={"lease": before.key, "task": task_arn, "gone_by": stopped.gone_by},
            )
        return not stopped.is_gone

    def claim_retries(self, batch: Batch) -> None:
        """Give free slots to jobs that ran before, before any new job that waits here."""
        # With more slots than messages there is no backlog in which a retry could be far behind.
        if not 0 < batch.room.free <= len(batch.waiting):
            return
        here = {message.key for message, _ in batch.waiting}
        due = self._due(batch.stage, batch.room.free, but=here)
        if not due:
            return
        now = self.context.clock.now()
        pace = batch.room.after(len(due), now)

        def start(before: Lease) -> None:
            lease = next_attempt(before, None, self.context.timing, now)
            with about(lease.id, lease.label):
                try:
                    self._start(before, lease, batch, pace)
                except (NoFreeSlotError, LeaseChangedError):
                    logger.info("its message, or another dispatcher, was first")
                except Exception:
                    # Any error: the sweeper starts what was claimed, and the others go on.
                    logger.exception("could not start this retry")

        self.context.background.run_all([partial(start, row) for row in due], at_once=len(due))
        batch.room = self.context.slots.room(batch.stage, self.context.clock.now())

    def _due(self, stage: Stage, most: int, *, but: Collection[str]) -> list[Lease]:
        """At most `most` released jobs that may be claimed from their rows, the longest due first.

        Without those whose tree was cancelled: their messages end them. And without those of whose
        tree that is not known, as its root cannot be read. `but`: keys of jobs whose messages are
        in hand.
        """
        keys = islice(self.context.leases.open_keys(stage.name, "RELEASED"), _LOOKED_AT)
        rows = self.context.leases.load_many([key for key in keys if key not in but]).values()
        now = self.context.clock.now()
        due = [row for row in rows if may_claim_without_message(row, now)]
        due.sort(key=lambda row: row.retry_at or now)
        roots = self.context.leases.load_many({row.root for row in due[:most]})
        return [
            row
            for row in due[:most]
            if row.root not in roots.unreadable
            and not row.is_cancelled_with_tree(roots.get(row.root))
        ]

    def put_back(self, batch: Batch) -> None:
        """Hide the messages without a slot until they are to be looked at again."""
        without_slot = batch.waiting[:]
        del batch.waiting[: len(without_slot)]  # other threads may append meanwhile
        if not without_slot:
            return
        waiting = [message for message, _ in without_slot]
        self.messages.defer(batch, waiting)
        batch.deferred_s += [
            self._waited_s(message, claim.replaces) for message, claim in without_slot
        ]
        batch.rarely_seen += [
            message.message_id
            for message in waiting
            if message.comes_rarely(self.context.timing, self.context.clock.now())
        ]
        tasks = [
            partial(self._note_seen, message, claim.replaces, batch)
            for message, claim in without_slot
        ]
        self.context.background.run_all(tasks, at_once=len(tasks))

    def _note_seen(self, message: JobMessage, row: Lease | None, batch: Batch) -> None:
        """Note that the message of a released job is there, or the sweeper would send a copy.

        Not at every receive, because the message may wait for a slot for days.
        """
        now = self.context.clock.now()
        if row is None or row.state is not State.RELEASED or batch.is_over(now):
            return
        if row.unseen_for(now) >= timedelta(seconds=self.context.timing.missing_after_s / 2):
            # Suppressed: it was claimed or cancelled a moment ago.
            with self.messages.guard(batch, message), suppress(LeaseChangedError):
                self.context.leases.apply(transitions.note_seen(row, now))

    def _waited_s(self, message: JobMessage, row: Lease | None) -> float:
        """Seconds since the job was sent, or since its last attempt ended."""
        ended_at = row.settled_at if row and row.state is State.RELEASED else None
        return (self.context.clock.now() - (ended_at or message.first_sent_at)).total_seconds()


def _is_retry(row: Lease | None) -> bool:
    return row is not None and row.state is State.RELEASED
