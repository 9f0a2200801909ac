"""What pipelines need from the world."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol

from longhaul.core.descent import Lineage, TreeWatch
from longhaul.pipelines.backfill import Backfill
from longhaul.pipelines.follow_ons import Complete, JoinStanding, Replaced


class Joins(Protocol):
    def note_success(self, replaced: Replaced, now: datetime) -> Complete | None:
        """Put what a job led to in its place among those for which a join waits; repeatable.

        What the join gets, once nothing is left to wait for, else None. A later run of a job
        replaces the earlier one, and all that descends from it; the join starts again then. A job
        that the join does not wait for changes nothing: a deploy has changed what leads there, or
        a later run has replaced the one that it descends from.
        """

    def noted_lineage(self, join_key: str) -> Lineage | None:
        """The lineage of a join's job, without `inputs_ref`, as noted with the opener's success.

        None: the opener has not succeeded.
        """

    def standings(self, join_keys: Iterable[str]) -> Mapping[str, JoinStanding]:
        """How joins stand, by key; strongly consistent. Not of those whose opener has not ended."""


class Backfills(Protocol):
    """Which jobs each backfill has sent."""

    def note_begun(
        self,
        key: str,
        left: Iterable[str],
        now: datetime,
        began_at: datetime,
        stale: Mapping[str, datetime] = ...,
    ) -> bool:
        """Note what a command will send, before it does: values, one at least; repeatable.

        `stale`: what is known of those of them that were sent again before, which goes.

        It joins what other commands have left, but not what a cancel has ended. False, with nothing
        noted, if the backfill was cancelled since the command began.
        """

    def note_sent(
        self,
        key: str,
        values: Iterable[str],
        now: datetime,
        again: Mapping[str, datetime] = ...,
        *,
        watches: bool = False,
    ) -> None:
        """Note the values of jobs that were sent, one at least; repeatable.

        Args:
            key: Of the backfill.
            values: Those of its jobs' ids.
            now: The time.
            again: When those of them were sent that had ended before.
            watches: Whether its end is to be told, once more where it was.
        """

    def watch_again(self, key: str, job: str, now: datetime) -> None:
        """Have the end of a backfill told again, if it has sent the job of that key."""

    def note_look(self, key: str, before: TreeWatch, after: TreeWatch) -> bool:
        """Note what a look at a watched backfill has found.

        False, with nothing noted, if it may have ended again since, or its end was told.
        """

    def note_cancel(self, key: str, now: datetime) -> None:
        """Let commands that have begun send no more jobs of the backfill."""

    def find_backfills(self, keys: Iterable[str]) -> Mapping[str, Backfill]:
        """The backfills of these keys (`stage#NAME`), by key; strongly consistent."""
