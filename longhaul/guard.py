"""Errors of one message: it stays in the queue, and the others of its batch go on.

A message that fails again and again becomes a dead letter.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aws_lambda_powertools import Logger

from longhaul.batch import Batch
from longhaul.context import Context
from longhaul.domain.dead_letter import Reason, refusal
from longhaul.domain.giving_up import INTERNAL_ERROR, explained
from longhaul.domain.lease import State, with_handle
from longhaul.domain.message import Delivery, JobMessage, Message
from longhaul.finish import Finisher
from longhaul.giving_up import GivingUp
from longhaul.log_context import about

logger = Logger(child=True)

_STAYS = "this message stays in the queue"
_NOT_GIVEN_UP = "not given up: the next error does"


@dataclass(frozen=True, kw_only=True)
class Guard:
    context: Context
    finisher: Finisher
    giving_up: GivingUp

    @contextmanager
    def message(self, batch: Batch, message: JobMessage) -> Iterator[None]:
        """Any error in the block: the message stays in the queue and comes again."""
        with about(message.key):
            try:
                yield
            except Exception as error:
                logger.exception(_STAYS, extra={"message_id": message.message_id})
                try:
                    self._failed(message, batch, error)
                except Exception:
                    logger.exception(_NOT_GIVEN_UP, extra={"id": message.message_id})

    @contextmanager
    def delivery(self, batch: Batch, delivery: Delivery) -> Iterator[None]:
        """The same before the job of a message is known."""
        try:
            yield
        except Exception as error:
            logger.exception(_STAYS, extra={"message_id": delivery.message_id})
            try:
                self._failed_to_read(delivery, batch, error)
            except Exception:
                logger.exception(_NOT_GIVEN_UP, extra={"id": delivery.message_id})

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
