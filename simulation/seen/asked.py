"""When work was asked for, and which cancels came after that."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from longhaul.core.message import FIRST_SENT
from simulation.aws.platform.hosts import current_host
from simulation.seen.sightings import Row, Sent

if TYPE_CHECKING:
    from simulation.seen.record import Seen

DOUBT = timedelta(seconds=2)  # of AWS's time, as a host with a wrong clock knows it


class Asked:
    """Of each message the time of its request, however often the product sends it again.

    Attributes:
        cancels: When the row noted the latest cancel, by key.
        cancelled_before: When the latest cancel began that somebody saw done, by key.
        trees_cancelled_before: The same of the tree of a root.
        died: When a run died, as its row says, by key and run.
        untold: Since when a notice is owed to its target, by id.
        untold_s: How long a notice was owed that is not any more, by id.
        copied_at: When the sweeper sent its latest copy, by key.
    """

    def __init__(self, seen: "Seen") -> None:
        self._seen = seen
        self.cancels: dict[str, datetime] = {}
        self.cancelled_before: dict[str, datetime] = {}
        self.trees_cancelled_before: dict[str, datetime] = {}
        self.died: dict[tuple[str, int | None], datetime] = {}
        self.untold: dict[str, datetime] = {}
        self.untold_s: dict[str, float] = {}
        self.copied_at: dict[str, datetime] = {}

    @property
    def doubt(self) -> timedelta:
        """How far a person's idea of AWS's time may be off."""
        return DOUBT if self._seen.world.plan.mix.skew_s else timedelta()

    def note_row(self, before: Row | None, row: Row) -> None:
        if row.get("cancelled_at") != (before or {}).get("cancelled_at"):
            self.cancels[row["key"]["S"]] = self._seen.now

    def note_notice(self, notice_id: str, *, is_owed: bool) -> None:
        if is_owed:
            self.untold.setdefault(notice_id, self._seen.now)
        elif since := self.untold.pop(notice_id, None):
            self.untold_s[notice_id] = (self._seen.now - since).total_seconds()

    def chain_of(self, sent: Sent) -> str:
        """Id of the message with which a chain of copies began."""
        # A producer may name any.
        return sent.renews if sent.renews in self._seen.sent else sent.message.id

    def at(self, sent: Sent) -> datetime:
        """When the work of a message was asked for.

        Of a copy: when the message was sent with which its chain began. Of a follow-on: when it was
        sent for the first time.
        """
        sent = self._seen.sent[self.chain_of(sent)]
        if not sent.is_follow_on:
            return sent.at
        return min(each.at for each in self._seen.sent.values() if each.is_follow_on_like(sent))

    def is_cancelled(self, sent: Sent) -> bool:
        """Whether a cancel came after the message was sent."""
        cancelled_at = self.cancels.get(sent.key)
        if cancelled_at is None:
            return False
        return min(self.at(sent), _dated(sent)) <= cancelled_at + self.doubt


def _dated(sent: Sent) -> datetime:
    """When a follow-on says that it was asked for: at the end of the job that led to it.

    Who cancels a tree means also those that are still to be sent.
    """
    value = sent.message.attributes.get(FIRST_SENT, {}).get("StringValue")
    if not sent.is_follow_on or value is None:
        return sent.at
    return datetime.fromisoformat(value)


def is_sent_by_product() -> bool:
    """Whether a function sends now, and not somebody who redrives or corrects."""
    host = current_host()
    return host is not None and "@" in host.name
