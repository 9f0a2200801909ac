"""A batch of deliveries: what happens to its messages, and what errors do."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from math import floor

from aws_lambda_powertools import Logger

from longhaul.core.beat import MAX_VISIBILITY_S
from longhaul.core.claim import Claim, Finish, first_receive
from longhaul.core.dead_letter import Reason, refusal
from longhaul.core.finish import Finisher
from longhaul.core.giving_up import GivingUp, refuse
from longhaul.core.lease import (
    AttemptId,
    Lease,
    Receive,
    State,
    joined_ref,
    with_handle,
)
from longhaul.core.logs import about
from longhaul.core.message import Delivery, JobMessage, Message, renewal
from longhaul.core.metrics import Metric, StageMetric
from longhaul.core.pace import MAX_HIDDEN, Room, deferrals_s
from longhaul.core.ports import Context
from longhaul.core.request import JobRequest
from longhaul.core.seams import Announcer
from longhaul.core.settings import Stage
from longhaul.core.settlement import INTERNAL_ERROR, explained

logger = Logger(child=True)

Known = tuple[JobMessage, Lease | None]
"""A message and its row, as it was read last."""


@dataclass(frozen=True)
class Closed:
    """The execution of `attempt` has closed, as `status`, without a settle."""

    attempt: AttemptId
    status: str


@dataclass
class Batch:
    """Deliveries of one stage.

    `kept`: ids of the messages that stay in the queue, at first all. `waiting`: messages with the
    claims for which they have no slot yet. `slow`: messages with what may take long, and must delay
    no claim. `refused`: refused messages by id, with the dead row that is to be finished; or, where
    another row stays as it is, with the reason of the dead letter, which is to be told.
    `room`: the stage's slots, as they were read last.

    `until`: when the batch is over, whatever is left.

    For the metrics, from threads in parallel: ids of the `started` and the `dead_lettered`, the
    seconds that each of the deferred had waited, and the ids of those that come too rarely.
    """

    stage: Stage
    kept: set[str]
    until: datetime | None = None
    waiting: list[tuple[JobMessage, Claim]] = field(default_factory=list)
    slow: list[tuple[JobMessage, Finish | Closed]] = field(default_factory=list)
    room: Room = field(default_factory=lambda: Room(slots=1, free=0, running=0))
    started: list[str] = field(default_factory=list)
    dead_lettered: list[str] = field(default_factory=list)
    deferred_s: list[float] = field(default_factory=list)
    rarely_seen: list[str] = field(default_factory=list)
    refused: list[tuple[str, Lease | Reason]] = field(default_factory=list)

    def is_over(self, now: datetime) -> bool:
        return self.until is not None and now >= self.until

    def refuses(self, message_id: str, reason: Reason, dead: Lease | None = None) -> None:
        """Note that a message is refused. `dead`: the row of its job says what is left to do.

        Without it the message has its dead letter. That is told later: a target that hangs holds up
        nothing.
        """
        self.dead_lettered.append(message_id)
        self.refused.append((message_id, dead or reason))
        logger.warning(
            "dead-lettered",
            extra={"message_id": message_id, "class": reason.kind, "reason": reason.reason},
        )

    def measured(self) -> dict[Metric, float]:
        values: dict[Metric, float | None] = {
            StageMetric.STARTED: len(self.started) or None,
            StageMetric.DEAD_LETTERED: len(self.dead_lettered) or None,
            StageMetric.OLDEST_WAITING: max(self.deferred_s, default=None),
            StageMetric.NEAR_RETENTION: len(self.rarely_seen) or None,
        }
        return {metric: value for metric, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Messages:
    """Puts messages back, renews them, and dead-letters them.

    The mapping deletes every message that is not kept.
    """

    context: Context
    announcer: Announcer
    finisher: Finisher
    giving_up: GivingUp

    def hold(self, batch: Batch, message: JobMessage, seconds: int) -> None:
        """Make the message visible after these seconds."""
        self.context.queue.set_visibility(batch.stage.queue_url, message.receipt_handle, seconds)

    def postpone(self, batch: Batch, message: JobMessage, seconds: int) -> None:
        """As `hold`, for a message that may come so often that it wears out.

        Where that is longer than SQS hides a message, it comes in between, and is put back again.
        """
        if not self.renew_if_worn_out(batch, message):
            held_s = (self.context.clock.now() - message.received_at).total_seconds()
            self.hold(batch, message, max(0, min(seconds, floor(MAX_VISIBILITY_S - held_s))))

    def postpone_until(self, batch: Batch, message: JobMessage, until: datetime) -> None:
        self.postpone(batch, message, round((until - self.context.clock.now()).total_seconds()))

    def renew_if_worn_out(self, batch: Batch, message: JobMessage) -> bool:
        """Send a copy of a message that SQS will soon drop; then the message may go.

        The copy comes at once, and what was to be done with the message is done with it. A crash
        after the send leaves both: they are of one chain, in which a later message replaces an
        earlier one. Returns whether there is a copy.
        """
        if not message.wears_out(self.context.timing, self.context.clock.now()):
            return False
        self._keep_proof(message)
        copy = renewal(
            message.content, message.chain, message.key, message.first_sent_at, message.again
        )
        self.context.queue.send(batch.stage.queue_url, copy)
        batch.kept.discard(message.message_id)
        logger.info(
            "message renewed",
            extra={"lease": message.key, "receive_count": message.receive_count},
        )
        return True

    def _keep_proof(self, message: JobMessage) -> None:
        """Let what proves a follow-on's lineage live on, for as long as its message waits.

        The row of its parent has months to live, and so have the inputs of a join. A forged lineage
        may keep somebody's row, and proves nothing by that.
        """
        lineage = message.request.lineage
        if lineage is None:
            return
        openers = (group.of for group in lineage.groups if group.opens)  # they prove joins to come
        for key in dict.fromkeys((lineage.parent, *openers)):
            self.context.leases.keep(key, self.context.clock.now())
        ref = joined_ref(message.key, lineage.run)
        if (
            lineage.inputs_ref == ref
            and (inputs := self.context.requests.get_inputs(ref)) is not None
        ):
            self.context.requests.put_inputs(ref, inputs)

    def refuse(
        self,
        batch: Batch,
        receive: Receive,
        content: Message,
        reason: Reason,
        *,
        request: JobRequest | None = None,
        row: Lease | None = None,
    ) -> None:
        """End the job of a message that starts no run. A row of another end stays as it is."""
        dead = refuse(self.context, batch.stage, content, reason, receive, request=request, row=row)
        if dead is None:
            self.dead_letter(batch, receive.message_id, content, reason)
            return
        batch.refuses(receive.message_id, reason, replace(dead, receive=receive))

    def dead_letter(self, batch: Batch, message_id: str, content: Message, reason: Reason) -> None:
        """Dead-letter a message that says nothing of the job whose id it has.

        Send first, delete afterwards: a crash in between sends it twice, and loses nothing.
        """
        self.giving_up.send(batch.stage.dead_letter_queue_url, lambda: content, reason)
        batch.kept.discard(message_id)
        batch.refuses(message_id, reason)

    def endings(self, batch: Batch) -> list[Callable[[], None]]:
        """Tasks that finish what was refused, and tell of it; taken out of the batch."""
        refused, batch.refused = batch.refused, []
        return [partial(self._end, batch, *each) for each in refused]

    def _end(self, batch: Batch, message_id: str, what: Lease | Reason) -> None:
        if isinstance(what, Reason):
            self.announcer.refused(batch.stage, what, message_id, batch.until)
            return
        if batch.is_over(self.context.clock.now()):
            return  # it comes again, and its letter is not sent beside the next batch
        with _unless_it_fails(message_id):
            if self.finisher.finish(what, batch.until).is_finished:
                batch.kept.discard(message_id)

    def defer(self, batch: Batch, messages: Sequence[JobMessage]) -> None:
        """Hide the messages until they are to be looked at again."""
        depth = self.context.queue.depth(batch.stage.queue_url)
        waiting = max(len(messages), depth.visible + depth.hidden - batch.room.running)
        likely_wait_s = waiting * batch.room.gap_s(self.context.clock.now())
        if depth.hidden >= MAX_HIDDEN:
            likely_wait_s = 0
        seconds = deferrals_s(len(messages), likely_wait_s, self.context.timing, self.context.rng)
        handles = [message.receipt_handle for message in messages]
        self.context.queue.set_visibility_many(
            batch.stage.queue_url, dict(zip(handles, seconds, strict=True))
        )

    @contextmanager
    def guard(self, batch: Batch, message: JobMessage) -> Iterator[None]:
        """Any error in the block: the message stays in the queue, and the others go on.

        A message that fails again and again becomes a dead letter.
        """
        failed = partial(self._failed, message, batch)
        named = about(message.key, message.request.label)
        with named, _unless_it_fails(message.message_id, failed):
            yield

    @contextmanager
    def guard_reading(self, batch: Batch, delivery: Delivery) -> Iterator[None]:
        """The same before the job of a message is known."""
        with _unless_it_fails(delivery.message_id, partial(self._failed_to_read, delivery, batch)):
            yield

    def _failed_to_read(self, delivery: Delivery, batch: Batch, error: Exception) -> None:
        """Count an error before the job of a message was known."""
        place = f"{batch.stage.name}#{delivery.message_id}"
        if self.giving_up.is_due(place, delivery.message_id, error):
            text = explained(error, "this message could not be read, or not be refused")
            reason = refusal(INTERNAL_ERROR, text, delivery.sent_at)
            self.dead_letter(batch, delivery.message_id, delivery.content, reason)

    def _failed(self, message: JobMessage, batch: Batch, error: Exception) -> None:
        """Count an error; in the end give up the waiting job, or a message that has no job.

        A running job and an ended one are left to the sweeper and to `finish`, which count too.
        """
        if not self.giving_up.is_due(message.key, message.message_id, error):
            return
        row = self.context.leases.load(message.key)
        if row is None or not row.receive.is_of(message.chain):
            text = explained(error, "no run could be started")
            reason = refusal(INTERNAL_ERROR, text, message.sent_at, message.key, message.request)
            try:
                self.refuse(
                    batch,
                    first_receive(message),
                    message.content,
                    reason,
                    request=message.request,
                    row=row,
                )
            except Exception:
                logger.exception("a dead letter without a row", extra={"lease": message.key})
                self.dead_letter(batch, message.message_id, message.content, reason)
        elif row.state is State.RELEASED:
            ended = with_handle(self.giving_up.end(row, error), message.receipt_handle)
            if self.finisher.finish(ended, batch.until).is_finished:
                batch.kept.discard(message.message_id)


@contextmanager
def _unless_it_fails(
    message_id: str, failed: Callable[[Exception], None] = lambda _: None
) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Any error: the message stays in the queue and comes again; the others go on.
        logger.exception("this message stays in the queue", extra={"message_id": message_id})
        try:
            failed(error)
        except Exception:
            logger.exception("not given up: the next error does", extra={"id": message_id})
