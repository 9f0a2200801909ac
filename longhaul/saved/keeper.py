"""Remove what jobs have stored, once no attempt needs it any more."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from aws_lambda_powertools import Logger

from longhaul.core.lease import AttemptId, Lease, State
from longhaul.core.ports import Context
from longhaul.core.sweep import Sweep
from longhaul.saved.record import decide_saved

logger = Logger(child=True)

_ANY: Final = 10**16
"""Above the run and the number of each attempt."""


class SavedStore(Protocol):
    """What jobs have stored for their next attempt (`saved.record`), in the data bucket."""

    def jobs(self) -> Iterator[str]:
        """The keys of the jobs that have stored something."""

    def remove(self, until: AttemptId) -> None:
        """Remove what the attempt and those before it have stored; repeatable."""


@dataclass(frozen=True, kw_only=True)
class Keeper:
    """`core.seams.SavedWork`, and what the sweeper does."""

    context: Context
    store: SavedStore

    def forget(self, lease: Lease) -> None:
        """Remove what the run had stored; what is left is the sweeper's."""
        if lease.saved_ref is None or lease.state is State.DEAD:
            return
        try:
            self.store.remove(lease.id)
        except Exception as error:  # noqa: BLE001 - nothing waits for it
            logger.warning("what it stored is left", extra={"error": type(error).__name__})

    def look_after(self, sweep: Sweep) -> None:
        """Remove what jobs have stored for an attempt that does not come any more.

        What an attempt stored that had lost its lease is there, too: no row names it.
        """
        for page in sweep.pages(self.store.jobs()):
            rows = self.context.leases.load_many(page)
            for key in (each for each in page if each not in rows.unreadable):
                row = rows.get(key)
                # Of a job without a row all that is there: none of its attempts can come back.
                until = row.id if row else AttemptId(key, _ANY, _ANY)
                if decide_saved(row, self.context.clock.now()) == "remove":
                    with sweep.guard(until):
                        self.store.remove(until)
                        sweep.report.removed += 1
