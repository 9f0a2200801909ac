"""Handle a batch of deliveries: claim the jobs, and start their executions.

Every record is kept (reported as a batch item failure) until its message is meant to be deleted:
the mapping must never delete a message whose job runs. So any failure here, a timeout included,
costs at most another receive.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from aws_lambda_powertools import Logger

from longhaul.ancestry import Ancestry
from longhaul.batch import Batch, Messages, Slow
from longhaul.claiming import Claimer
from longhaul.deadline import left_s
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
from longhaul.domain.dead_letter import refusal
from longhaul.domain.errors import InvalidRequestError, LeaseChangedError, UnreadableRowError
from longhaul.domain.lease import Lease, with_handle
from longhaul.domain.message import Delivery, JobMessage, believed, read, require_room
from longhaul.domain.outcome import cancel_waiting
from longhaul.domain.policy import check_policy
from longhaul.finish import Finisher
from longhaul.guard import Guard
from longhaul.log_context import about
from longhaul.ports import Background, Clock, Leases, Metrics, Rows, Slots
from longhaul.settings import RuntimeSettings, Stage
from longhaul.starting import Starter

logger = Logger(child=True)

_TRIES = 5

_UNREADABLE_S = 300
"""Wait for the version that can read the row."""

_OWED_S = 60
"""Wait for what the previous run owes: the sweeper does it too, every few minutes."""

_UNTOLD_S = 900
"""The longest wait for a notice. Thousands of jobs may owe one to a target that is gone."""


@dataclass(frozen=True, kw_only=True)
class Dispatcher:
    settings: RuntimeSettings
    clock: Clock
    leases: Leases
    slots: Slots
    messages: Messages
    starter: Starter
    claimer: Claimer
    finisher: Finisher
    ancestry: Ancestry
    guard: Guard
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
            self.guard.reading(batch, delivery, partial(self._read, delivery, batch, messages))
        try:
            if messages:
                self._look_up_all(messages, batch)
            self._claim_and_finish(batch)
        finally:
            # In an outage the claims end early, and what was dead-lettered before is told still.
            notices = self.messages.notices(batch)
            self.background.run_all(notices, at_once=max(1, len(notices)))

    def _look_up_all(self, messages: Sequence[JobMessage], batch: Batch) -> None:
        leases, batch.room = self.leases.survey(
            [each.key for each in messages], batch.stage, self.clock.now()
        )
        # Of several messages with one key the first goes on; the others come again after its claim.
        firsts = {each.key: each for each in reversed(messages)}.values()
        self.guard.each(batch, firsts, lambda each: self._look_up(each, leases, batch))

    def _read(self, delivery: Delivery, batch: Batch, messages: list[JobMessage]) -> None:
        """Read the delivery's request. A body that is none is dead-lettered at once."""
        try:
            messages.append(read(delivery, batch.stage, self.clock.now()))
        except InvalidRequestError as error:
            reason = refusal("invalid_request", str(error), delivery.sent_at)
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
        message = believed(message, lease)
        decision = decide_claim(lease, message, batch.stage, self.settings.lease, self.clock.now())
        # The message of a running job comes back after half a day, which may be too late.
        if isinstance(decision, Claim | Probe) and self.messages.renew_if_worn_out(batch, message):
            return None
        match decision:
            case Claim():
                if not decision.starts_run or self._is_allowed(message, lease, batch):
                    batch.waiting.append((message, lease))
            case Probe(lease=probed):
                with about(probed.id):
                    self.starter.probe(message, probed, batch)
            case Finish(lease=ended):
                finish = self._finish_own if decision.own else self._finish_first
                batch.slow.append((message, partial(finish, ended=ended, batch=batch)))
            case CancelWaiting(lease=waiting, covers=covers):
                ended = self._end_waiting(waiting, message if covers else None)
                if not covers:
                    return ended
                batch.slow.append((message, partial(self._finish_own, ended=ended, batch=batch)))
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
                reason = refusal("conflicting_job_id", text, message.sent_at, message.key)
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
        finished = self.finisher.finish(own, batch.until)
        if finished.is_finished:
            batch.kept.discard(message.message_id)
        elif finished.state.is_terminal:
            # What is owed for a day or more must not wear the message out.
            self.messages.postpone(batch, message, self._wait_s(finished))

    def _wait_s(self, ended: Lease) -> int:
        """Seconds until a message looks again whether what its row owes is done."""
        if ended.untold_at is None:
            return _OWED_S
        untold_s = round((self.clock.now() - ended.untold_at).total_seconds())
        return max(_OWED_S, min(_UNTOLD_S, untold_s))

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
            reason = refusal("invalid_request", str(error), message.sent_at, message.key)
            self.messages.dead_letter(batch, message.message_id, message.content, reason)
            return False
        return True

    def _do_slowly(self, slow: Slow, batch: Batch) -> None:
        """Finish and settle one job after the other.

        Each may read a list and a manifest that a task wrote: two of the largest do not fit into a
        function's memory.
        """
        for message, do in slow:
            self.guard.one(batch, message, do)

    def _claim_and_finish(self, batch: Batch) -> None:
        """Claim what waits, and beside it do what is slow.

        A publication may take minutes, and a notice hang: no claim waits for it. What had to be
        finished before its claim is claimed in the next round.
        """
        while (batch.waiting or batch.slow) and not batch.is_over(self.clock.now()):
            slow, batch.slow = batch.slow, []
            tasks: list[Callable[[], None]] = [
                partial(self.claimer.claim_waiting, batch, self._decide),
                *([partial(self._do_slowly, slow, batch)] if slow else []),
                *self.messages.notices(batch),
            ]
            self.background.run_all(tasks, at_once=len(tasks))
            if batch.waiting:
                batch.room = self.slots.room(batch.stage, self.clock.now())
