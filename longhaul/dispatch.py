"""What the dispatcher does with a batch of deliveries.

Every record is kept (reported as a batch item failure) until its message is meant to be deleted: the mapping must never delete a message whose job runs. So
whatever happens here, a time-out included, costs at most another receive.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from aws_lambda_powertools import Logger

from longhaul.batch import Batch, Messages
from longhaul.domain import schedule
from longhaul.domain.claim import (
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
from longhaul.domain.delivery import Accepted, Delivery, accept
from longhaul.domain.errors import InvalidRequestError, LeaseChangedError, NoFreeSlotError
from longhaul.domain.lease import Lease, Message, State
from longhaul.domain.outcome import Evidence, cancel_waiting
from longhaul.finish import Finisher
from longhaul.logs import about
from longhaul.ports import Clock, Executions, LeaseStore, Metrics, RequestStore, Tasks
from longhaul.settings import RuntimeSettings, Stage
from longhaul.settle import Settler

logger = Logger(child=True)

_TRIES = 5
_STOPPING_S = 15
"""A job waits so long before it looks again whether the task is gone that it follows: most end within seconds, a deaf one after `stop_timeout_s`."""


@dataclass(frozen=True)
class Dispatcher:
    settings: RuntimeSettings
    clock: Clock
    rng: random.Random
    leases: LeaseStore
    messages: Messages
    executions: Executions
    tasks: Tasks
    requests: RequestStore
    settler: Settler
    finisher: Finisher
    metrics: Metrics

    def dispatch(self, stage: Stage, deliveries: Sequence[Delivery]) -> list[str]:
        """Handle the batch; answers the ids of the messages to keep."""
        batch = Batch(stage, kept={delivery.message_id for delivery in deliveries}, waiting=[])
        accepted: list[Accepted] = []
        for delivery in deliveries:
            self._unless_it_fails(delivery.message_id, partial(self._accept, delivery, batch, accepted))
        if accepted:
            self._dispatch(accepted, batch)
        if values := batch.measured():
            self.metrics.put(values, stage=stage.name)
        return [delivery.message_id for delivery in deliveries if delivery.message_id in batch.kept]

    def _dispatch(self, accepted: Sequence[Accepted], batch: Batch) -> None:
        leases, free = self.leases.survey([each.message.key for each in accepted], batch.stage, self.clock.now())
        # Of several messages with one key the first goes on; the others come again when it has claimed.
        firsts = {each.message.key: each for each in reversed(accepted)}.values()
        self._each(firsts, lambda each: self._decide(each, leases.get(each.message.key), batch))
        self._claim_waiting(batch, free)

    def _accept(self, delivery: Delivery, batch: Batch, accepted: list[Accepted]) -> None:
        """Read the delivery's request. One that can never run is dead-lettered at once."""
        try:
            accepted.append(accept(delivery, self.settings, batch.stage, self.clock.now()))
        except InvalidRequestError as error:
            sent = delivery.sent_at.isoformat(timespec="seconds")
            reason = Reason(kind="invalid_request", reason=str(error), first_sent=sent)
            self.messages.dead_letter(batch, delivery.message_id, delivery.content, reason)

    def _decide(self, each: Accepted, lease: Lease | None, batch: Batch) -> None:
        """Decide and act; a row that changed meanwhile is decided on anew."""
        for _ in range(_TRIES):
            try:
                lease = self._act(each, lease, batch)
            except LeaseChangedError as error:
                lease = error.current
            else:
                if lease is None:
                    return
        logger.warning("the lease keeps changing; the message stays in the queue", extra={"lease": each.message.key})

    def _act(self, each: Accepted, lease: Lease | None, batch: Batch) -> Lease | None:
        """Do what the decision says. Answers a row that has to be decided on again, None when nothing is left."""
        message = each.message
        decision = decide_claim(lease, message, batch.stage, self.settings.lease, self.clock.now())
        match decision:
            case Claim():
                batch.waiting.append((each, lease))
            case Probe(lease=probed):
                with about(probed.id):
                    self._probe(message, probed, batch)
                self.messages.renew_if_worn_out(batch, each)
            case Finish(lease=ended, own=True):
                # The handle in hand is newer than the row's.
                if self.finisher.finish(replace(ended, receipt_handle=message.receipt_handle)).is_finished:
                    batch.kept.discard(message.message_id)
            case Finish(lease=ended):
                finished = self.finisher.finish(ended)
                if finished.is_finished:
                    return finished
                self.messages.defer(batch, [message])
            case CancelWaiting(lease=waiting):
                # A mark that was there before any claim does not know where the job comes from; a correction is to take its place.
                lineage = waiting.lineage or message.request.lineage
                cancelled = replace(adopted(cancel_waiting(waiting, self.clock.now()), message), lineage=lineage)
                self.leases.end_waiting(waiting, cancelled)
                self.finisher.finish(cancelled)
                batch.kept.discard(message.message_id)
            case Postpone(until=until):
                self.messages.postpone(batch, each, round((until - self.clock.now()).total_seconds()))
            case Duplicate():
                logger.info(
                    "duplicate submission deleted", extra={"lease": message.key, "message_id": message.message_id}
                )
                batch.kept.discard(message.message_id)
            case Conflict(lease=other):
                text = f"job_id {other.job_id!r} belongs to a different request (run {other.run}, {other.state.value}); give this one another job_id"
                reason = Reason(
                    kind="conflicting_job_id",
                    reason=text,
                    key=message.key,
                    first_sent=message.sent_at.isoformat(timespec="seconds"),
                )
                self.messages.dead_letter(batch, message.message_id, each.content, reason)
        return None

    def _probe(self, message: Message, lease: Lease, batch: Batch) -> None:
        """The row says RUNNING: start its execution again, with the name and the input stored in the row, byte for byte.

        It lives, or starts now because a dispatcher died between claim and start: adopt this receive. It has closed unsettled: settle it.
        """
        closed_as = self.executions.ensure_started(lease.id.execution_name, lease.execution_input)
        row = self._adopt(lease, message)
        if closed_as is not None:
            self.settler.settle(lease.id, Evidence.execution_closed(closed_as))
            return
        if row is None:
            return
        age_s = (self.clock.now() - row.claimed_at).total_seconds()
        wait_s = schedule.interval_s(age_s, self.settings.lease)
        self.messages.hold(batch, message, schedule.visibility_s(wait_s, 0, self.settings.lease))
        logger.info(
            "running job adopted",
            extra={"lease": lease.key, "receive_count": message.receive_count},
        )

    def _adopt(self, lease: Lease, message: Message) -> Lease | None:
        """The row with this receive; None when a later receive of the same message was adopted first: its handle counts, ours holds nothing."""
        try:
            return self.leases.adopt(lease, message)
        except LeaseChangedError as error:
            if error.current is None or not error.current.owns(lease.id) or not error.current.has_seen(message):
                raise
            logger.info("a later receive was adopted first", extra={"lease": lease.key})
            return None

    def _claim_waiting(self, batch: Batch, free: int) -> None:
        """Claim what waits as slots become free, for `slot_wait_s` at the most; defer the rest.

        The rendezvous of a bounded channel: the backlog stays in the queue, visible and honest, and a free slot is taken within a second.
        """
        deadline = self.clock.now() + timedelta(seconds=self.settings.lease.slot_wait_s)
        # Who has been tried already goes first: the time that its producer waits began long ago.
        batch.waiting.sort(key=lambda waiting: waiting[1] is None)
        while batch.waiting:
            now_claiming, batch.waiting = batch.waiting[:free], batch.waiting[free:]
            self._each(
                [each for each, _ in now_claiming],
                self._claimer(batch, {each.message.key: row for each, row in now_claiming}),
            )
            if batch.waiting and self.clock.now() >= deadline:
                self._put_back(batch)
                return
            if batch.waiting and not now_claiming:
                self.clock.sleep(self.rng.uniform(0.5, 1.0))
            if batch.waiting:
                free = self.leases.free_slots(batch.stage, self.clock.now())

    def _put_back(self, batch: Batch) -> None:
        """What found no slot comes again in some minutes."""
        self.messages.defer(batch, [each.message for each, _ in batch.waiting])
        batch.deferred_s += [self._waited_s(each.message, row) for each, row in batch.waiting]
        rows = {each.message.key: row for each, row in batch.waiting}

        def keep_up(each: Accepted) -> None:
            self.messages.renew_if_worn_out(batch, each)
            self._note_seen(rows[each.message.key])

        self._each([each for each, _ in batch.waiting], keep_up)

    def _note_seen(self, row: Lease | None) -> None:
        """Tell the sweeper that the message of a released job is not lost, in time and not each time: it may wait for a slot for days."""
        now = self.clock.now()
        if row is None or row.state is not State.RELEASED:
            return
        if row.unseen_for(now) >= timedelta(seconds=self.settings.lease.missing_after_s / 2):
            with suppress(LeaseChangedError):  # claimed or cancelled a moment ago: no longer missed by anybody
                self.leases.note_seen(row, now)

    def _waited_s(self, message: Message, row: Lease | None) -> float:
        """Since the job was sent, or since its last attempt ended."""
        ended_at = row.settled_at if row and row.state is State.RELEASED else None
        return (self.clock.now() - (ended_at or message.first_sent_at)).total_seconds()

    def _claimer(self, batch: Batch, rows: Mapping[str, Lease | None]) -> Callable[[Accepted], None]:
        def claim(each: Accepted) -> None:
            row = rows[each.message.key]
            try:
                self._claim(each, row, batch)
            except NoFreeSlotError:
                batch.waiting.append((each, row))
            except LeaseChangedError as error:
                self._decide(each, error.current, batch)

        return claim

    def _claim(self, each: Accepted, row: Lease | None, batch: Batch) -> None:
        # Decided anew: the wait for a slot must not count as the attempt's age.
        claim = decide_claim(row, each.message, batch.stage, self.settings.lease, self.clock.now())
        if not isinstance(claim, Claim):
            raise LeaseChangedError(row)
        with about(claim.lease.id):
            self._start(each, claim, batch)

    def _start(self, each: Accepted, claim: Claim, batch: Batch) -> None:
        lease = claim.lease
        if self._is_task_left(claim):
            self.messages.postpone(batch, each, _STOPPING_S)
            return
        if claim.starts_run:
            self.requests.put(lease.request_ref, each.content)
        self.leases.claim(claim, batch.stage)
        batch.started.append(each.message.message_id)
        logger.info(
            "job claimed",
            extra={
                "lease": lease.key,
                "run": lease.run,
                "receive_count": lease.receive_count,
            },
        )
        closed_as = self.executions.ensure_started(lease.id.execution_name, lease.execution_input)
        if closed_as is not None:
            self.settler.settle(lease.id, Evidence.execution_closed(closed_as))

    def _is_task_left(self, claim: Claim) -> bool:
        """Whether something of the attempt before still runs; it is stopped then.

        A message that was released shows when the task is gone. Another one, of a job that is submitted again, comes when it likes.
        """
        before = claim.replaces
        if before is None or before.task_arn is None or before.message_id == claim.lease.message_id:
            return False
        return not self.tasks.stop(before.task_arn, "Longhaul: the job was submitted again").is_gone

    def _each(self, accepted: Iterable[Accepted], do: Callable[[Accepted], None]) -> None:
        """In parallel; trouble with one message leaves it in the queue and delays no other."""
        work = list(accepted)
        if work:
            with ThreadPoolExecutor(max_workers=len(work)) as pool:
                list(pool.map(lambda each: self._guard(each, do), work))

    def _guard(self, each: Accepted, do: Callable[[Accepted], None]) -> None:
        with about(each.message.key):
            self._unless_it_fails(each.message.message_id, lambda: do(each))

    def _unless_it_fails(self, message_id: str, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception:
            # Whatever it is: the message stays in the queue and comes again, and the others of the batch go on.
            logger.exception("this message stays in the queue", extra={"message_id": message_id})
