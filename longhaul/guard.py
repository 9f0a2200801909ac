"""Errors of one message: it stays in the queue, and the others of its batch go on.

A message that fails again and again becomes a dead letter.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from aws_lambda_powertools import Logger

from longhaul.batch import Batch
from longhaul.context import Context
from longhaul.domain.dead_letter import Reason, refusal
from longhaul.domain.lease import State, with_handle
from longhaul.domain.message import Delivery, JobMessage, Message
from longhaul.domain.poison import INTERNAL_ERROR, explained
from longhaul.finish import Finisher
from longhaul.giving_up import GivingUp
from longhaul.log_context import about

logger = Logger(child=True)


@dataclass(frozen=True, kw_only=True)
class Guard:
    context: Context
    finisher: Finisher
    giving_up: GivingUp

    @contextmanager
    def message(self, batch: Batch, message: JobMessage) -> Iterator[None]:
        """Any error in the block: the message stays in the queue and comes again."""
        failed = partial(self._failed, message, batch)
        with about(message.key), _unless_it_fails(message.message_id, failed):
            yield

    @contextmanager
    def delivery(self, batch: Batch, delivery: Delivery) -> Iterator[None]:
        """The same before the job of a message is known."""
        with _unless_it_fails(delivery.message_id, partial(self._failed_to_read, delivery, batch)):
            yield

    def _failed_to_read(self, delivery: Delivery, batch: Batch, error: Exception) -> None:
        """Count an error before the job of a message was known."""
        place = f"{batch.stage.name}#{delivery.message_id}"
        if self.giving_up.is_due(place, delivery.message_id, error):
            text = explained(error, "this message could not be read, or not be refused")
            reason = refusal(INTERNAL_ERROR, text, delivery.sent_at)
            self._dead_letter(batch, delivery.message_id, delivery.content, reason)

    def _failed(self, message: JobMessage, batch: Batch, error: Exception) -> None:
        """Count an error; in the end give up the waiting job, or a message that has no job.

        A running job and an ended one are left to the sweeper and to `finish`, which count too.
        """
        if not self.giving_up.is_due(message.key, message.message_id, error):
            return
        row = self.context.leases.load(message.key)
        if row is None or not row.receive.is_of(message.message_id, message.chain):
            text = explained(error, "no run could be started")
            reason = refusal(INTERNAL_ERROR, text, message.sent_at, message.key)
            self._dead_letter(batch, message.message_id, message.content, reason)
        elif row.state is State.RELEASED:
            ended = with_handle(self.giving_up.end(row, error), message.receipt_handle)
            if self.finisher.finish(ended, batch.until).is_finished:
                batch.kept.discard(message.message_id)

    def _dead_letter(self, batch: Batch, message_id: str, content: Message, reason: Reason) -> None:
        self.giving_up.send(batch.stage.dead_letter_queue_url, lambda: content, reason)
        batch.struck_off(message_id, reason)


@contextmanager
def _unless_it_fails(message_id: str, failed: Callable[[Exception], None]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Any error: the message stays in the queue and comes again; the others go on.
        logger.exception("this message stays in the queue", extra={"message_id": message_id})
        try:
            failed(error)
        except Exception:
            logger.exception("not given up: the next error does", extra={"id": message_id})
