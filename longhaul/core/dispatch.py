"""Handle a batch of deliveries: read all and their rows, then decide and act in parallel.

Every record is kept (reported as a batch item failure) until its message is meant to be deleted:
the mapping must never delete a message whose job runs. So any failure here, a timeout included,
costs at most another receive.

What claims and what is slow is put aside while the batch acts, and done last: claims take the free
slots, and beside them jobs are finished, one after the other.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from aws_lambda_powertools import Logger

from longhaul.core import transitions
from longhaul.core.batch import Batch, Closed, Known, Messages
from longhaul.core.claim import (
    Cancelled,
    CancelWaiting,
    Claim,
    Conflict,
    Decision,
    Duplicate,
    Finish,
    Postpone,
    Probe,
    adopted,
    decide_claim,
    first_receive,
    run_lineage,
)
from longhaul.core.dead_letter import refusal
from longhaul.core.errors import (
    InvalidRequestError,
    LeaseChangedError,
    SupersededError,
    UnprovenError,
)
from longhaul.core.finish import Finisher
from longhaul.core.lease import Lease, job_key, with_handle
from longhaul.core.logs import about
from longhaul.core.message import Delivery, JobMessage, id_of, read, receive_of, require_room
from longhaul.core.policy import check_policy
from longhaul.core.ports import Context
from longhaul.core.seams import Descent
from longhaul.core.settings import Stage
from longhaul.core.settle import Settler
from longhaul.core.settlement import cancel_waiting
from longhaul.core.slots import Claimer
from longhaul.core.verdict import Evidence

logger = Logger(child=True)

CONFLICTING = "conflicting_job_id"
INVALID = "invalid_request"

_TRIES = 5

_UNREADABLE_S = 300
"""Wait for the version that can read the row."""

_OWED_S = 60
"""Wait for what the previous run owes: the sweeper does it too, every few minutes."""


@dataclass(frozen=True, kw_only=True)
class Dispatcher:
    context: Context
    messages: Messages
    claimer: Claimer
    settler: Settler
    finisher: Finisher
    descent: Descent

    def dispatch(
        self, stage: Stage, deliveries: Sequence[Delivery], until: datetime | None = None
    ) -> list[str]:
        """Handle the batch; returns the ids of the messages to keep.

        It returns `until` then, also while a call hangs: a function that Lambda ends says nothing,
        and all messages come again, those that were dead-lettered among them.
        """
        batch = Batch(stage, {delivery.message_id for delivery in deliveries}, until)
        try:
            self.context.background.run_all(
                [partial(self._dispatch, deliveries, batch)],
                at_once=1,
                within_s=self.context.left_s(until),
            )
        except Exception:
            # Any error of a call for all of them, as in an outage, or the end of the time. The
            # answer still says what may be deleted.
            logger.exception("the rest of this batch stays in the queue")
        if values := batch.measured():
            self.context.metrics.put(values, stage=stage.name)
        return [delivery.message_id for delivery in deliveries if delivery.message_id in batch.kept]

    def _dispatch(self, deliveries: Iterable[Delivery], batch: Batch) -> None:
        messages = self._read(deliveries, batch)
        try:
            if messages:
                self._handle(self._look_up(messages, batch), batch)
            self._claim_and_finish(batch)
        finally:
            # In an outage the claims end early, and what was refused before is finished still.
            endings = self.messages.endings(batch)
            self.context.background.run_all(endings, at_once=max(1, len(endings)))

    def _read(self, deliveries: Iterable[Delivery], batch: Batch) -> list[JobMessage]:
        """The deliveries that are requests. The job of a body that is none is dead."""
        messages: list[JobMessage] = []
        paths = self.context.settings.paths
        for delivery in deliveries:
            now = self.context.clock.now()
            if batch.is_over(now):
                break
            with self.messages.guard_reading(batch, delivery):
                try:
                    messages.append(read(delivery, batch.stage, now, paths))
                except InvalidRequestError as error:
                    key = job_key(batch.stage.name, id_of(delivery))
                    reason = refusal(INVALID, str(error), delivery.sent_at, key)
                    self.messages.refuse(batch, receive_of(delivery), delivery.content, reason)
        return messages

    def _look_up(self, messages: Sequence[JobMessage], batch: Batch) -> list[Known]:
        """The messages to handle, with their rows.

        Of several messages with one key the first goes on; the others come again after its claim. A
        row that cannot be read belongs to a version that is no longer deployed, or not yet. Its
        message waits for that version, and is renewed as often as that takes.
        """
        rows, batch.room = self.context.leases.survey(
            [each.key for each in messages], batch.stage, self.context.clock.now()
        )
        firsts = {each.key: each for each in reversed(messages)}.values()
        waits = [
            partial(self._wait_for_version, each, batch)
            for each in firsts
            if each.key in rows.unreadable
        ]
        self.context.background.run_all(waits, at_once=max(1, len(waits)))
        return [(each, rows.get(each.key)) for each in firsts if each.key not in rows.unreadable]

    def _wait_for_version(self, message: JobMessage, batch: Batch) -> None:
        with self.messages.guard(batch, message):
            self.messages.postpone(batch, message, _UNREADABLE_S)

    def _handle(self, messages: Sequence[Known], batch: Batch) -> None:
        """Decide on all and act on all, in parallel; again where a row has changed meanwhile."""
        for _ in range(_TRIES):
            tasks = [partial(self._act, message, row, batch) for message, row in messages]
            changed = self.context.background.run_all(tasks, at_once=max(1, len(tasks)))
            messages = [known for known in changed if known is not None]
            if not messages:
                return
        for message, _row in messages:
            logger.warning(
                "the lease keeps changing; the message stays in the queue",
                extra={"lease": message.key},
            )

    def _act(self, message: JobMessage, row: Lease | None, batch: Batch) -> Known | None:
        """Do what the message means for its job; returns it with the row to decide on again."""
        now = self.context.clock.now()
        if batch.is_over(now):
            return None
        with self.messages.guard(batch, message):
            try:
                decision = decide_claim(row, message, self.context.timing, now)
                again = self._do(message, decision, batch)
            except LeaseChangedError as error:
                return message, error.current
            return None if again is None else (message, again)
        return None

    def _do(self, message: JobMessage, decision: Decision, batch: Batch) -> Lease | None:
        """Do what the decision says, or put it aside.

        Returns a row that must be decided on again, None when nothing is left to do.
        """
        # The message of a running job comes back after half a day, which may be too late.
        if isinstance(decision, Claim | Probe) and self.messages.renew_if_worn_out(batch, message):
            return None
        match decision:
            case Claim():
                return self._begin(message, decision, batch)
            case Probe(lease=probed):
                with about(probed.id, probed.label):
                    self.claimer.probe(message, probed, batch)
            case Finish():
                batch.slow.append((message, decision))
            case CancelWaiting(lease=waiting, covers=covers):
                ended = self._end_waiting(waiting, message if covers else None)
                if not covers:
                    return ended
                batch.slow.append((message, Finish(ended, own=True)))
            case Cancelled():
                logger.info(
                    "cancelled before it was claimed: deleted",
                    extra={"lease": message.key, "message_id": message.message_id},
                )
                batch.kept.discard(message.message_id)
            case Postpone(until=until):
                self.messages.postpone_until(batch, message, until)
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
                reason = refusal(CONFLICTING, text, message.sent_at, message.key, message.request)
                self.messages.dead_letter(batch, message.message_id, message.content, reason)
        return None

    def _begin(self, message: JobMessage, claim: Claim, batch: Batch) -> Lease | None:
        """Let a claim wait for a slot.

        Returns the row of a job whose tree was cancelled since the message was sent: it ends first.
        """
        if claim.starts_run and not self._is_allowed(message, claim.replaces, batch):
            return None
        if (at := self._tree_cancelled_at(message, claim)) is not None:
            return self.context.leases.request_cancel(message.key, batch.stage.name, at)
        batch.waiting.append((message, claim))
        return None

    def _tree_cancelled_at(self, message: JobMessage, claim: Claim) -> datetime | None:
        """When the tree of the job was cancelled, if that covers what begins."""
        row = claim.replaces
        if row is None or claim.starts_run:  # what the message says of its lineage is proven by now
            lineage, asked_at = run_lineage(message, row), message.first_sent_at
        else:
            lineage, asked_at = row.lineage, row.asked_at
        root = self.context.leases.load(lineage.root) if lineage else None
        return root.tree_cancelled_at if root and root.cancels_tree(asked_at) else None

    def _end_waiting(self, waiting: Lease, covered: JobMessage | None) -> Lease:
        """End a cancelled job; returns its row. `covered`: the message that ends with it."""
        ended = cancel_waiting(waiting, self.context.clock.now())
        if covered is not None:
            # A cancel mark made before the first claim has no lineage and no names. Take the
            # message's, so that a correction keeps its place in the join, and is called alike.
            stage = self.context.settings.stage(waiting.stage)
            lineage = waiting.lineage or self.descent.proven_lineage(covered, stage, waiting)
            if waiting.is_mark:  # a retry sends it
                self.context.requests.put(covered.request_ref, covered.content)
            ended = replace(
                adopted(ended, covered),
                request_ref=waiting.request_ref or covered.request_ref,
                lineage=lineage,
                label=waiting.label or covered.request.label,
                tags=waiting.tags or covered.request.tags,
            )
        self.context.leases.apply(transitions.end_waiting(waiting, ended))
        return ended

    def _is_allowed(self, message: JobMessage, row: Lease | None, batch: Batch) -> bool:
        """Whether a run may start; refuses the message if not.

        At once, so that the reason does not wait for a slot.
        """
        try:
            # First: what is not proven is not of the job, whatever else is wrong with it.
            request = self.descent.proven(message, batch.stage, row)
            require_room(message.content)
            check_policy(request, self.context.settings, batch.stage)
        except SupersededError as error:
            # The later run leads to this job again, if it does.
            logger.info("superseded: deleted", extra={"lease": message.key, "why": str(error)})
            batch.kept.discard(message.message_id)
            return False
        except InvalidRequestError as error:
            reason = refusal(INVALID, str(error), message.sent_at, message.key, message.request)
            if isinstance(error, UnprovenError):
                self.messages.dead_letter(batch, message.message_id, message.content, reason)
            else:
                receive, asked = first_receive(message), message.request
                self.messages.refuse(
                    batch, receive, message.content, reason, request=asked, row=row
                )
            return False
        return True

    def _claim_and_finish(self, batch: Batch) -> None:
        """Claim what waits, and beside it do what is slow.

        A publication may take minutes, and a notice hang: no claim waits for it. What had to be
        finished before its claim is claimed in the next round.
        """
        while (batch.waiting or batch.slow) and not batch.is_over(self.context.clock.now()):
            slow, batch.slow = batch.slow, []
            tasks: list[Callable[[], None]] = [
                partial(self._claim, batch),
                *([partial(self._do_slowly, slow, batch)] if slow else []),
                *self.messages.endings(batch),
            ]
            self.context.background.run_all(tasks, at_once=len(tasks))
            if batch.waiting:
                batch.room = self.context.slots.room(batch.stage, self.context.clock.now())

    def _claim(self, batch: Batch) -> None:
        """Claim what waits while slots are free; put the rest back at once."""
        try:
            self.claimer.claim_retries(batch)
            while not batch.is_over(self.context.clock.now()):
                claims = self.claimer.first(batch)
                if not claims:  # nothing waits, or no slot is free
                    break
                self._handle(self.claimer.claim(claims, batch), batch)
                if batch.waiting:
                    batch.room = self.context.slots.room(batch.stage, self.context.clock.now())
            self.claimer.put_back(batch)
        except Exception:
            # Any error of a call for all of them: they come again when their visibility lapses.
            logger.exception("the messages without a slot stay in the queue")
            batch.waiting.clear()

    def _do_slowly(self, slow: Iterable[tuple[JobMessage, Finish | Closed]], batch: Batch) -> None:
        """Finish and settle one job after the other.

        Each may read a list and a manifest that a task wrote: two of the largest do not fit into a
        function's memory.
        """
        for message, what in slow:
            if batch.is_over(self.context.clock.now()):
                return
            with self.messages.guard(batch, message):
                match what:
                    case Closed(attempt=attempt, status=status):
                        closed = Evidence.execution_closed(status)
                        self.settler.settle(attempt, closed, batch.until)
                    case Finish(lease=ended, own=True):
                        self._finish_own(message, ended, batch)
                    case Finish(lease=ended):
                        self._finish_first(message, ended, batch)

    def _finish_own(self, message: JobMessage, ended: Lease, batch: Batch) -> None:
        # The handle in hand is newer than the row's.
        own = with_handle(ended, message.receipt_handle)
        finished = self.finisher.finish(own, batch.until)
        if finished.is_finished:
            batch.kept.discard(message.message_id)
        elif finished.state.is_terminal:
            # What is owed for a day or more must not wear the message out.
            self.messages.postpone(batch, message, _OWED_S)

    def _finish_first(self, message: JobMessage, ended: Lease, batch: Batch) -> None:
        finished = self.finisher.finish(ended, batch.until)
        if finished.is_finished:
            self._handle([(message, finished)], batch)
        else:
            self.messages.postpone(batch, message, _OWED_S)
