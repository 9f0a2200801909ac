"""What notices need from the world."""

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from longhaul.notices.notice import Notice, Untold


class Notices(Protocol):
    def send(self, target: str, notice: Notice) -> None:
        """Send to the bus, topic or queue of this ARN; repeatable.

        Raises NoticeRefusedError when it will not be taken until people change something.
        """


class UntoldNotices(Protocol):
    """What a stage owes to the target of its notices. Nothing else waits for it."""

    def owe(self, stage: str, notice: Notice, now: datetime) -> None:
        """Note a notice that could not be sent."""

    def owed(self, stage: str) -> Iterator[Untold]:
        """Those of a stage, in another order each time; a little late."""

    def strike(self, untold: Untold) -> None:
        """It was sent, or is lost."""
