"""Messages on which the dispatcher fails again and again: they become dead letters."""

from dataclasses import dataclass

from longhaul.batch import Batch
from longhaul.domain.dead_letter import Reason
from longhaul.domain.giving_up import INTERNAL_ERROR, explained
from longhaul.domain.lease import State, with_handle
from longhaul.domain.message import Delivery, JobMessage, Message
from longhaul.finish import Finisher
from longhaul.giving_up import GivingUp
from longhaul.ports import Leases


@dataclass(frozen=True, kw_only=True)
class HopelessMessages:
    leases: Leases
    finisher: Finisher
    giving_up: GivingUp

    def failed_to_read(self, delivery: Delivery, batch: Batch, error: Exception) -> None:
        """Count an error before the job of a message was known."""
        place = f"{batch.stage.name}#{delivery.message_id}"
        if self.giving_up.is_due(place, delivery.message_id, error):
            text = explained(error, "this message could not be read, or not be refused")
            sent = delivery.sent_at.isoformat(timespec="seconds")
            reason = Reason(kind=INTERNAL_ERROR, reason=text, first_sent=sent)
            self._dead_letter(batch, delivery.message_id, delivery.content, reason)

    def failed(self, message: JobMessage, batch: Batch, error: Exception) -> None:
        """Count an error; in the end give up the waiting job, or a message that has no job.

        A running job and an ended one are left to the sweeper and to `finish`, which count too.
        """
        if not self.giving_up.is_due(message.key, message.message_id, error):
            return
        row = self.leases.load(message.key)
        if row is None or not row.receive.is_of(message.message_id, message.chain):
            text = explained(error, "no run could be started")
            sent = message.sent_at.isoformat(timespec="seconds")
            reason = Reason(kind=INTERNAL_ERROR, reason=text, key=message.key, first_sent=sent)
            self._dead_letter(batch, message.message_id, message.content, reason)
        elif row.state is State.RELEASED:
            ended = with_handle(self.giving_up.end(row, error), message.receipt_handle)
            if self.finisher.finish(ended).is_finished:
                batch.kept.discard(message.message_id)

    def _dead_letter(self, batch: Batch, message_id: str, content: Message, reason: Reason) -> None:
        self.giving_up.send(batch.stage.dead_letter_queue_url, lambda: content, reason)
        batch.kept.discard(message_id)
        batch.dead_lettered.append(message_id)
