"""What hangs on the core, and where: `wiring` joins them, and the core knows no feature.

claim    `Descent`: what the lineage of a message means, and which joins belong to a run
finish   `Publication`, `FollowOns`, `Trees`, `SavedWork`, `Announcer`: what an end owes
sweep    `sweep.LookAfter`: what a sweep looks after beside leases and tasks
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from longhaul.core.dead_letter import Reason
from longhaul.core.descent import Lineage
from longhaul.core.lease import AttemptId, Lease
from longhaul.core.message import JobMessage
from longhaul.core.request import JobRequest
from longhaul.core.settings import Stage


class Descent(Protocol):
    """Whether a job follows from the job that it names."""

    def proven(self, message: JobMessage, stage: Stage, row: Lease | None) -> JobRequest:
        """A message's request, with the inputs of a join, if its lineage may enter the job's row.

        Raises:
            SupersededError: what led to it has run again since, and leads to it once more; or was
                cancelled.
            UnprovenError: nothing led to this job, or the id is kept for a job that follows.
            InvalidRequestError: too many fan-outs led to it, or inputs of the join are no longer
                known.
        """

    def proven_lineage(
        self, message: JobMessage, stage: Stage, row: Lease | None
    ) -> Lineage | None:
        """The lineage of a message that starts no run; None when it is not proven."""

    def with_joins(self, lease: Lease) -> Lease:
        """The row of a run that begins, with the joins that belong to it."""


class Publication(Protocol):
    """Makes a committed output visible."""

    def publish(self, lease: Lease, until: datetime | None) -> None:
        """Publish the row's committed output; repeatable.

        Raises:
            UnfinishedError: it is still owed.
            VoidCommitError: it can never become visible.
            LeaseChangedError: another function goes on with it.
        """

    def reopen(self, lease: Lease) -> Lease:
        """Let the job of a void commit run again, or be dead when that was too often.

        Raises:
            LeaseChangedError: it was published after all, or another function came first.
        """

    def discard(self, attempt: AttemptId) -> None:
        """Remove what an attempt without a commit left, or one whose commit is void; repeatable."""


class FollowOns(Protocol):
    def send(self, lease: Lease) -> Iterator[Lease]:
        """Send what follows a success, and start the joins that it completes; repeatable.

        Yields the dead rows of those that can never start, each to be finished. The job's message
        stays until all of it is in its queues.
        """


class Trees(Protocol):
    """Watches the trees, and the backfills, whose end is to be told."""

    def begins_watch(self, lease: Lease) -> bool:
        """Whether a job whose last act is struck off is the root of a tree to be told of."""

    def ends_again(self, lease: Lease) -> None:
        """Before the last act of a job: watch its tree and its backfill again that may be told."""


class SavedWork(Protocol):
    def forget(self, lease: Lease) -> None:
        """Remove what an ended run had stored and no later one needs; never raises."""


class Announcer(Protocol):
    """Tells others of an end. What cannot be sent is owed apart, and holds up nothing."""

    def ended(self, lease: Lease, stage: Stage, until: datetime | None = None) -> None:
        """Tell that a run has ended; repeatable. `until`: when there is no time left to try it."""

    def refused(
        self,
        stage: Stage,
        reason: Reason,
        message_id: str | None = None,
        until: datetime | None = None,
    ) -> None:
        """Tell that a message became a dead letter under the id of another job's row."""
