"""A batch of deliveries, and what happens to its messages."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from aws_lambda_powertools import Logger

from longhaul.domain import schedule
from longhaul.domain.dead_letter import Reason, dead_letter
from longhaul.domain.delivery import Accepted
from longhaul.domain.lease import Lease, Message
from longhaul.domain.message import MessageContent, renewal
from longhaul.metrics import Metric, StageMetric
from longhaul.ports import Clock, JobQueue
from longhaul.settings import LeaseSettings, Stage

logger = Logger(child=True)


@dataclass
class Batch:
    """Deliveries of one stage. `kept`: message ids that stay in the queue, to begin with all of them. `waiting`: what is to be claimed, with its row, but has no slot yet.

    What the metrics tell of, noted by threads in parallel: message ids of the `started` and the `dead_lettered`, for how long each of the `deferred` had waited.
    """

    stage: Stage
    kept: set[str]
    waiting: list[tuple[Accepted, Lease | None]]
    started: list[str] = field(default_factory=list)
    dead_lettered: list[str] = field(default_factory=list)
    deferred_s: list[float] = field(default_factory=list)

    def measured(self) -> dict[Metric, float]:
        values: dict[Metric, float] = {}
        if self.started:
            values[StageMetric.STARTED] = len(self.started)
        if self.dead_lettered:
            values[StageMetric.DEAD_LETTERED] = len(self.dead_lettered)
        if self.deferred_s:
            values[StageMetric.OLDEST_WAITING] = max(self.deferred_s)
        return values


@dataclass(frozen=True)
class Messages:
    """How messages are put back, renewed and dead-lettered. What is not kept the mapping deletes."""

    numbers: LeaseSettings
    clock: Clock
    rng: random.Random
    queue: JobQueue

    def hold(self, batch: Batch, message: Message, seconds: int) -> None:
        """It shows again after so many seconds."""
        self.queue.set_visibility(batch.stage.queue_url, message.receipt_handle, seconds)

    def postpone(self, batch: Batch, each: Accepted, seconds: int) -> None:
        """The same for one that may come so often that it wears out."""
        self.hold(batch, each.message, max(0, seconds))
        self.renew_if_worn_out(batch, each)

    def renew_if_worn_out(self, batch: Batch, each: Accepted) -> None:
        """Replace a message that SQS will soon give up on by a copy; then it may go.

        A crash after the send leaves both: the copy says whom it renews, so one of them owns the job and the other is its duplicate.
        """
        if each.message.wears_out(self.numbers, self.clock.now()):
            self.queue.send(
                batch.stage.queue_url,
                renewal(each.content, each.message.message_id, each.message.key, each.message.first_sent_at),
            )
            batch.kept.discard(each.message.message_id)
            logger.info(
                "message renewed", extra={"lease": each.message.key, "receive_count": each.message.receive_count}
            )

    def dead_letter(self, batch: Batch, message_id: str, content: MessageContent, reason: Reason) -> None:
        """Send first, delete afterwards: a crash in between sends it twice, never zero times."""
        self.queue.send(batch.stage.dead_letter_queue_url, dead_letter(content, reason))
        batch.kept.discard(message_id)
        batch.dead_lettered.append(message_id)
        logger.warning("dead-lettered", extra={"message_id": message_id, "class": reason.kind, "reason": reason.reason})

    def defer(self, batch: Batch, messages: Iterable[Message]) -> None:
        """They come again in some minutes."""
        self.queue.set_visibility_many(
            batch.stage.queue_url,
            {message.receipt_handle: schedule.deferral_s(self.numbers, self.rng) for message in messages},
        )
