"""Handle a batch of deliveries: claim the jobs, and start their executions.

Every record is kept (reported as a batch item failure) until its message is meant to be deleted:
the mapping must never delete a message whose job runs. So any failure here, a timeout included,
costs at most another receive.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from aws_lambda_powertools import Logger

from longhaul.ancestry import Ancestry
from longhaul.batch import Batch, Messages
from longhaul.deadline import left_s
from longhaul.domain import schedule
from longhaul.domain.claim import (
    Cancelled,
    CancelWaiting,
    Claim,
    Conflict,
    Duplicate,
    Finish,
    Postpone,
    Probe,
    adopted,
    decide_claim,
)
from longhaul.domain.dead_letter import Reason
from longhaul.domain.errors import (
    InvalidRequestError,
    LeaseChangedError,
    NoFreeSlotError,
    UnreadableRowError,
)
from longhaul.domain.lease import Lease, State, with_handle
from longhaul.domain.message import Delivery, JobMessage, read, require_room
from longhaul.domain.outcome import cancel_waiting
from longhaul.domain.pace import Pace
from longhaul.domain.policy import check_policy
from longhaul.domain.verdict import Evidence
from longhaul.finish import Finisher
from longhaul.hopeless import HopelessMessages
from longhaul.log_context import about
from longhaul.ports import (
    Background,
    Clock,
    Executions,
    Leases,
    Metrics,
    Requests,
    Rows,
    Slots,
    Tasks,
)
from longhaul.retries import Retries
from longhaul.settings import RuntimeSettings, Stage
from longhaul.settle import Settler

logger = Logger(child=True)

T = TypeVar("T")

_TRIES = 5
_STOPPING_S = 15
"""Wait for the task of the previous run to end.

Most end within seconds, one that ignores SIGTERM after `stop_timeout_s`.
"""

_UNREADABLE_S = 300
"""Wait for the version that can read the row."""

_OWED_S = 60
"""Wait for what the previous run owes: the sweeper does it too, every few minutes."""


@dataclass(frozen=True, kw_only=True)
class Dispatcher:
    settings: RuntimeSettings
    clock: Clock
    rng: random.Random
    leases: Leases
    slots: Slots
    retries: Retries
    messages: Messages
    executions: Executions
    tasks: Tasks
    requests: Requests
    settler: Settler
    finisher: Finisher
    hopeless: HopelessMessages
    ancestry: Ancestry
    metrics: Metrics
    background: Background

    def dispatch(
        self, stage: Stage, deliveries: Sequence[Delivery], until: datetime | None = None
    ) -> list[str]:
        """Handle the batch; returns the ids of the messages to keep.

        It returns `until` then, also while a call hangs: a function that Lambda ends says nothing,
        and all messages come again, those that were dead-lettered among them.
        """
        batch = Batch(stage, {delivery.message_id for delivery in deliveries}, until)
        try:
            self.background.run_all(
                [partial(self._dispatch, deliveries, batch)],
                at_once=1,
                within_s=left_s(until, self.clock),
            )
        except Exception:
            # Any error of a call for all of them, as in an outage, or the end of the time. The
            # answer still says what may be deleted.
            logger.exception("the rest of this batch stays in the queue")
        if values := batch.measured():
            self.metrics.put(values, stage=stage.name)
        return [delivery.message_id for delivery in deliveries if delivery.message_id in batch.kept]

    def _dispatch(self, deliveries: Iterable[Delivery], batch: Batch) -> None:
        messages: list[JobMessage] = []
        for delivery in deliveries:
            self._unless_it_fails(
                batch,
                delivery.message_id,
                partial(self._read, delivery, batch, messages),
                partial(self.hopeless.failed_to_read, delivery, batch),
            )
        if not messages:
            return
        leases, batch.room = self.leases.survey(
            [each.key for each in messages], batch.stage, self.clock.now()
        )
        # Of several messages with one key the first goes on; the others come again after its claim.
        firsts = {each.key: each for each in reversed(messages)}.values()
        self._each(batch, firsts, lambda each: self._look_up(each, leases, batch))
        self._claim_and_finish(batch)

    def _read(self, delivery: Delivery, batch: Batch, messages: list[JobMessage]) -> None:
        """Read the delivery's request. A body that is none is dead-lettered at once."""
        try:
            messages.append(read(delivery, batch.stage, self.clock.now()))
        except InvalidRequestError as error:
            sent = delivery.sent_at.isoformat(timespec="seconds")
            reason = Reason(kind="invalid_request", reason=str(error), first_sent=sent)
            self.messages.dead_letter(batch, delivery.message_id, delivery.content, reason)

    def _look_up(self, message: JobMessage, rows: Rows, batch: Batch) -> None:
        """Decide, given the message's row.

        A row that cannot be read belongs to a version that is no longer deployed, or not yet. Its
        message waits for that version, and is renewed as often as that takes.
        """
        try:
            row = rows.get(message.key)
        except UnreadableRowError:
            self.messages.postpone(batch, message, _UNREADABLE_S)
        else:
            self._decide(message, row, batch)

    def _decide(self, message: JobMessage, lease: Lease | None, batch: Batch) -> None:
        """Decide and act; decide again when the row changed meanwhile."""
        for _ in range(_TRIES):
            try:
                lease = self._act(message, lease, batch)
            except LeaseChangedError as error:
                lease = error.current
            else:
                if lease is None:
                    return
        logger.warning(
            "the lease keeps changing; the message stays in the queue",
            extra={"lease": message.key},
        )

    def _act(self, message: JobMessage, lease: Lease | None, batch: Batch) -> Lease | None:
        """Do what the decision says.

        Returns a row that must be decided on again, None when nothing is left to do.
        """
        decision = decide_claim(lease, message, batch.stage, self.settings.lease, self.clock.now())
        match decision:
            case Claim():
                if not decision.starts_run or self._is_allowed(message, lease, batch):
                    batch.waiting.append((message, lease))
            case Probe(lease=probed):
                with about(probed.id):
                    self._probe(message, probed, batch)
                self.messages.renew_if_worn_out(batch, message)
            case Finish(lease=ended):
                finish = self._finish_own if decision.own else self._finish_first
                batch.slow.append((message, partial(finish, ended=ended, batch=batch)))
            case CancelWaiting(lease=waiting, covers=covers):
                ended = self._end_waiting(waiting, message if covers else None)
                if not covers:
                    return ended
                self.finisher.finish(ended)
                batch.kept.discard(message.message_id)
            case Cancelled():
                logger.info(
                    "cancelled before it was claimed: deleted",
                    extra={"lease": message.key, "message_id": message.message_id},
                )
                batch.kept.discard(message.message_id)
            case Postpone(until=until):
                self.messages.postpone(
                    batch, message, round((until - self.clock.now()).total_seconds())
                )
            case Duplicate():
                logger.info(
                    "duplicate submission deleted",
                    extra={"lease": message.key, "message_id": message.message_id},
                )
                batch.kept.discard(message.message_id)
            case Conflict(lease=other):
                text = (
                    f"job_id {other.job_id!r} belongs to a different request "
                    f"(run {other.run}, {other.state.value}); give this one another job_id"
                )
                reason = _reason_of("conflicting_job_id", text, message)
                self.messages.dead_letter(batch, message.message_id, message.content, reason)
        return None

    def _end_waiting(self, waiting: Lease, covered: JobMessage | None) -> Lease:
        """End a cancelled job; returns its row. `covered`: the message that ends with it."""
        ended = cancel_waiting(waiting, self.clock.now())
        if covered is not None:
            # A cancel mark made before the first claim has no lineage. Take the message's, so that
            # a correction keeps its place in the join.
            stage = self.settings.stage(waiting.stage)
            lineage = waiting.lineage or self.ancestry.lineage_of(covered, stage, waiting)
            ended = replace(adopted(ended, covered), lineage=lineage)
        self.leases.end_waiting(waiting, ended)
        return ended

    def _finish_own(self, message: JobMessage, ended: Lease, batch: Batch) -> None:
        # The handle in hand is newer than the row's.
        own = with_handle(ended, message.receipt_handle)
        if self.finisher.finish(own, batch.until).is_finished:
            batch.kept.discard(message.message_id)

    def _finish_first(self, message: JobMessage, ended: Lease, batch: Batch) -> None:
        finished = self.finisher.finish(ended, batch.until)
        if finished.is_finished:
            self._decide(message, finished, batch)
        else:
            self.messages.postpone(batch, message, _OWED_S)

    def _is_allowed(self, message: JobMessage, row: Lease | None, batch: Batch) -> bool:
        """Whether a run may start; dead-letters the message if not.

        At once, so that the reason does not wait for a slot.
        """
        try:
            require_room(message.content)
            request = self.ancestry.proven(message, batch.stage, row)
            check_policy(request, self.settings, batch.stage)
        except InvalidRequestError as error:
            reason = _reason_of("invalid_request", str(error), message)
            self.messages.dead_letter(batch, message.message_id, message.content, reason)
            return False
        return True

    def _probe(self, message: JobMessage, lease: Lease, batch: Batch) -> None:
        """The row says RUNNING: start its execution again, with the row's name and input.

        It runs, or starts now because a dispatcher died between claim and start: adopt this
        receive. It has closed without a settle: settle it.
        """
        closed_as = self.executions.ensure_started(lease.id.execution_name, lease.execution_input)
        row = self._adopt(lease, message)
        if closed_as is not None:
            self._settle_later(message, lease, closed_as, batch)
            return
        if row is None:
            return
        age_s = (self.clock.now() - row.attempt.claimed_at).total_seconds()
        wait_s = schedule.interval_s(age_s, self.settings.lease)
        self.messages.hold(batch, message, schedule.visibility_s(wait_s, 0, self.settings.lease))
        logger.info(
            "running job adopted",
            extra={"lease": lease.key, "receive_count": message.receive_count},
        )

    def _settle_later(
        self, message: JobMessage, lease: Lease, closed_as: str, batch: Batch
    ) -> None:
        def settle(_: JobMessage) -> None:
            self.settler.settle(lease.id, Evidence.execution_closed(closed_as), batch.until)

        batch.slow.append((message, settle))

    def _adopt(self, lease: Lease, message: JobMessage) -> Lease | None:
        """The row with this receive; None when a later receive of the message was adopted first.

        Then the row has the later receive's handle, and ours no longer holds the message.
        """
        try:
            return self.leases.adopt(lease, message)
        except LeaseChangedError as error:
            if (
                error.current is None
                or not error.current.owns(lease.id)
                or not error.current.has_seen(message.message_id, message.receive_count)
            ):
                raise
            logger.info("a later receive was adopted first", extra={"lease": lease.key})
            return None

    def _claim_and_finish(self, batch: Batch) -> None:
        """Claim what waits, and beside it do what is slow.

        A publication may take minutes: no claim waits for it. What had to be finished before its
        claim is claimed in the next round.
        """
        while (batch.waiting or batch.slow) and not batch.is_over(self.clock.now()):
            # Retries first: their producers have waited longest.
            batch.waiting.sort(key=lambda waiting: waiting[1] is None)
            slow, batch.slow = batch.slow, []
            tasks = [
                partial(self._claim_or_leave, batch),
                *(partial(self._guard, batch, each, do) for each, do in slow),
            ]
            self.background.run_all(tasks, at_once=len(tasks))
            if batch.waiting:
                batch.room = self.slots.room(batch.stage, self.clock.now())

    def _claim_or_leave(self, batch: Batch) -> None:
        try:
            self._claim_waiting(batch)
        except Exception:
            # Any error of a call for all of them: they come again when their visibility lapses.
            logger.exception("the messages without a slot stay in the queue")
            batch.waiting.clear()

    def _claim_waiting(self, batch: Batch) -> None:
        """Claim what waits while slots are free; put the rest back at once.

        Nothing runs while messages wait: each comes again after a part of its likely wait.
        """
        # With more slots than messages there is no backlog in which a retry could be far behind.
        if 0 < batch.room.free <= len(batch.waiting):
            self._claim_retries(batch)
        while batch.waiting and batch.room.free and not batch.is_over(self.clock.now()):
            now_claiming = _taken(batch.waiting, batch.room.free)
            pace = batch.room.after(len(now_claiming), self.clock.now())
            self._each(
                batch,
                [message for message, _ in now_claiming],
                self._claimer(batch, {message.key: row for message, row in now_claiming}, pace),
            )
            if batch.waiting:
                batch.room = self.slots.room(batch.stage, self.clock.now())
        if batch.waiting:
            self._put_back(batch)

    def _claim_retries(self, batch: Batch) -> None:
        """Give free slots to jobs that ran before, before any new job that waits here."""
        here = {message.key for message, _ in batch.waiting}
        claims = self.retries.due(batch.stage, batch.room.free, but=here)
        if not claims:
            return
        pace = batch.room.after(len(claims), self.clock.now())

        def start(claim: Claim) -> None:
            with about(claim.lease.id):
                try:
                    self._claim_and_start(claim, batch, pace)
                except (NoFreeSlotError, LeaseChangedError):
                    logger.info("its message, or another dispatcher, was first")
                except Exception:
                    # Any error: the sweeper starts what was claimed, and the others go on.
                    logger.exception("could not start this retry")

        self.background.run_all([partial(start, claim) for claim in claims], at_once=len(claims))
        batch.room = self.slots.room(batch.stage, self.clock.now())

    def _put_back(self, batch: Batch) -> None:
        """Hide the messages without a slot until they are to be looked at again."""
        without_slot = _taken(batch.waiting, len(batch.waiting))
        waiting = [message for message, _ in without_slot]
        self.messages.defer(batch, waiting)
        batch.deferred_s += [self._waited_s(message, row) for message, row in without_slot]
        batch.rarely_seen += [
            message.message_id
            for message in waiting
            if message.comes_rarely(self.settings.lease, self.clock.now())
        ]
        rows = {message.key: row for message, row in without_slot}

        def keep_up(message: JobMessage) -> None:
            self.messages.renew_if_worn_out(batch, message)
            self._note_seen(rows[message.key])

        self._each(batch, waiting, keep_up)

    def _note_seen(self, row: Lease | None) -> None:
        """Note that the message of a released job is there, or the sweeper would send a copy.

        Not at every receive, because the message may wait for a slot for days.
        """
        now = self.clock.now()
        if row is None or row.state is not State.RELEASED:
            return
        if row.unseen_for(now) >= timedelta(seconds=self.settings.lease.missing_after_s / 2):
            with suppress(LeaseChangedError):  # claimed or cancelled a moment ago
                self.leases.note_seen(row, now)

    def _waited_s(self, message: JobMessage, row: Lease | None) -> float:
        """Seconds since the job was sent, or since its last attempt ended."""
        ended_at = row.settled_at if row and row.state is State.RELEASED else None
        return (self.clock.now() - (ended_at or message.first_sent_at)).total_seconds()

    def _claimer(
        self, batch: Batch, rows: Mapping[str, Lease | None], pace: Pace
    ) -> Callable[[JobMessage], None]:
        def claim(message: JobMessage) -> None:
            row = rows[message.key]
            try:
                self._claim(message, row, batch, pace)
            except NoFreeSlotError:
                batch.waiting.append((message, row))
            except LeaseChangedError as error:
                self._decide(message, error.current, batch)

        return claim

    def _claim(self, message: JobMessage, row: Lease | None, batch: Batch, pace: Pace) -> None:
        # Decided again: the wait for a slot must not count as the attempt's age.
        claim = decide_claim(row, message, batch.stage, self.settings.lease, self.clock.now())
        if not isinstance(claim, Claim):
            raise LeaseChangedError(row)
        with about(claim.lease.id):
            self._start(message, claim, batch, pace)

    def _start(self, message: JobMessage, claim: Claim, batch: Batch, pace: Pace) -> None:
        lease = claim.lease
        if self._is_task_left(claim):
            self.messages.postpone(batch, message, _STOPPING_S)
            return
        if claim.starts_run:
            self.requests.put(lease.request_ref, message.content)
        closed_as = self._claim_and_start(claim, batch, pace)
        if closed_as is not None:
            self._settle_later(message, lease, closed_as, batch)
        else:
            self._hold_until_first_beat(message, lease, batch)

    def _claim_and_start(self, claim: Claim, batch: Batch, pace: Pace) -> str | None:
        """Returns the status in which the execution has closed already; None while it runs."""
        lease = claim.lease
        self.leases.claim(claim, batch.stage, pace)
        batch.started.append(lease.receive.message_id)
        logger.info(
            "job claimed",
            extra={
                "lease": lease.key,
                "run": lease.run,
                "receive_count": lease.receive.receive_count,
            },
        )
        return self.executions.ensure_started(lease.id.execution_name, lease.execution_input)

    def _hold_until_first_beat(self, message: JobMessage, lease: Lease, batch: Batch) -> None:
        """Extend the message where the queue's visibility ends before the first beat."""
        wait_s = lease.input.first_wait_s
        held_s = (self.clock.now() - message.received_at).total_seconds()
        if schedule.must_extend(wait_s, held_s):
            seconds = schedule.visibility_s(wait_s, held_s, self.settings.lease)
            self.messages.hold(batch, message, seconds)

    def _is_task_left(self, claim: Claim) -> bool:
        """Whether the previous attempt's task still runs; it is stopped then.

        A released message becomes visible after that task is gone. The message of a job that is
        submitted again may come sooner.
        """
        if claim.replaces is None:
            return False
        task_arn = claim.replaces.attempt.task_arn
        same_message = claim.replaces.receive.message_id == claim.lease.receive.message_id
        if task_arn is None or same_message:
            return False
        return not self.tasks.stop(task_arn, "Longhaul: the job was submitted again").is_gone

    def _each(
        self, batch: Batch, messages: Iterable[JobMessage], do: Callable[[JobMessage], None]
    ) -> None:
        """In parallel; trouble with one message leaves it in the queue and delays no other."""
        tasks = [partial(self._guard, batch, each, do) for each in messages]
        self.background.run_all(tasks, at_once=len(tasks))

    def _guard(self, batch: Batch, message: JobMessage, do: Callable[[JobMessage], None]) -> None:
        with about(message.key):
            self._unless_it_fails(
                batch,
                message.message_id,
                lambda: do(message),
                partial(self.hopeless.failed, message, batch),
            )

    def _unless_it_fails(
        self,
        batch: Batch,
        message_id: str,
        do: Callable[[], None],
        give_up: Callable[[Exception], None],
    ) -> None:
        if batch.is_over(self.clock.now()):
            return
        try:
            do()
        except Exception as error:
            # Any error: the message stays in the queue and comes again; the others go on.
            logger.exception("this message stays in the queue", extra={"message_id": message_id})
            try:
                give_up(error)
            except Exception:
                logger.exception("not given up: the next error does", extra={"id": message_id})


def _taken(waiting: list[T], count: int) -> list[T]:
    """The first of the list, taken out of it. Other threads may append meanwhile."""
    first = waiting[:count]
    del waiting[: len(first)]
    return first


def _reason_of(kind: str, text: str, message: JobMessage) -> Reason:
    """Why a message is dead-lettered that starts no run."""
    sent = message.sent_at.isoformat(timespec="seconds")
    return Reason(kind=kind, reason=text, key=message.key, first_sent=sent)
