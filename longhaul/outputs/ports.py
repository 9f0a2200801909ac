"""What outputs need from the world."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Protocol

from longhaul.core.lease import AttemptId
from longhaul.outputs.lineage import Origin


class Publisher(Protocol):
    def publish(
        self,
        attempt: AttemptId,
        until: datetime | None = None,
        *,
        looks_only: bool = False,
        just_committed: bool = False,
        places: Collection[str] | None = None,
    ) -> None:
        """Make a committed output visible; repeatable by anyone.

        `looks_only`: do so if all uploads are completed, and complete none. `just_committed`:
        nobody has completed any of them before. `places`: where alone
        outputs may be, as the job's request has them; None where that is not known.

        Raises:
            TimeUpError: it was not done `until` then; what was done stays.
            UploadsGoneError: uploads are neither pending nor completed.
            VoidCommitError: another output is in its way.
        """

    def discard(self, attempt: AttemptId) -> None:
        """Remove what an attempt without a commit left, or one whose commit is void; repeatable.

        Its pending uploads are aborted, and those that were completed deleted.

        Its pending list (`outputs.pending`) names the uploads: the runner writes it once all are
        created and before the first part is sent. Without a list there is nothing to do; the
        bucket's lifecycle rule removes what a crash in between leaves.
        """

    def origin(self, attempt: AttemptId) -> Origin | None:
        """What an attempt that has committed had read; None: it is not known any more."""

    def listed(self) -> Iterator[AttemptId]:
        """The attempts that have a pending list."""

    def strike_off(self, attempts: Iterable[AttemptId]) -> None:
        """Remove the pending lists of attempts that have nothing pending."""
