"""Pending lists: uploads of an attempt that are not completed. Pure.

The runner writes an attempt's list once its uploads are created; settle aborts them when the
attempt fails. The sweeper removes the lists that are left, and aborts parts that were still being
sent at the first abort: `decide_pending` says when.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Literal, Protocol

from longhaul.core import backoff
from longhaul.core.lease import AttemptId, Lease, State, folder_name, key_of_folder
from longhaul.core.places import INTERNAL_PREFIX, DataPath, TablePath, is_table
from longhaul.core.settings import LeaseSettings
from longhaul.outputs.lineage import Origin
from longhaul.outputs.manifest import PendingOutput

PREFIX = f"{INTERNAL_PREFIX}pending/"

Pending = Literal["keep", "strike off", "abort"]
"""What to do about a list.

`strike off`: its output is published, only the list is left. `abort`: these uploads will never be
committed.
"""

_REF = re.compile(rf"{re.escape(PREFIX)}([^/]+)/(\d+)-(\d+)\.json")


def pending_ref(attempt: AttemptId) -> str:
    """Key of an attempt's pending list in the data bucket."""
    return f"{PREFIX}{folder_name(attempt.key)}/{attempt.run}-{attempt.attempt}.json"


def attempt_of(ref: str) -> AttemptId | None:
    """The attempt whose list has that key; None when it is no list's key."""
    match = _REF.fullmatch(ref)
    key = match and key_of_folder(match[1])
    return AttemptId(key, int(match[2]), int(match[3])) if match and key else None


def is_own(pending: PendingOutput, attempt: AttemptId, data_bucket: str) -> bool:
    """Whether an attempt's list names files of its own alone.

    Tasks write lists, and a job's code has the task's rights. A forged list must not make a
    function delete or complete what belongs to others.
    """
    # Nothing would look at what is beside those beside.
    return all(_is_of(attempt, each, data_bucket) for each in pending.outputs) and not any(
        each.beside for each in pending.beside
    )


def goes_elsewhere(pending: PendingOutput, places: Collection[str]) -> bool:
    """Whether any output of a list is at none of the places that its job's request names.

    A function would publish it with rights that the job's stage may not have.

    Args:
        pending: the list.
        places: of the row: `s3://…/` or `table://DATABASE/NAME`, beside which a job's datasets have
            tables too.
    """
    tables = [TablePath.of(each) for each in places if is_table(each)]
    return any(
        not all(any(each.path.is_in(table) for table in tables) for each in output.tables)
        if output.tables
        else output.prefix not in places
        for output in pending.outputs
    )


def _is_of(attempt: AttemptId, pending: PendingOutput, data_bucket: str) -> bool:
    place = DataPath.on_s3(pending.prefix)
    return (
        pending.token == attempt.token
        # Without the slash, a file of `longhaul` could be one of `longhaul/`.
        and place.key.endswith("/")
        and not (place.bucket == data_bucket and place.key.startswith(INTERNAL_PREFIX))
        and all(pending.token in upload.path for upload in pending.uploads)
        # A new table's metadata is written there.
        and all(each.location == each.path.location(data_bucket) for each in pending.tables)
    )


def decide_pending(
    attempt: AttemptId, row: Lease | None, timing: LeaseSettings, now: datetime
) -> Pending:
    """What to do about an attempt's list, given its job's row.

    The uploads of an attempt that runs, or whose commit is not published yet, are kept.
    """
    if row is None or attempt < row.id:
        return "abort"
    if attempt > row.id or row.state is State.RUNNING:
        return "keep"
    if row.state is State.SUCCEEDED:
        return "strike off" if row.attempt.published_at else "keep"
    # Its task may still be sending while it stops: a part that arrives after the abort would stay,
    # and cost money.
    still_stopping = timedelta(seconds=backoff.stop_clearance_s(timing))
    return "keep" if row.settled_at and now - row.settled_at < still_stopping else "abort"


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
        no one has completed any of them before. `places`: where alone
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
