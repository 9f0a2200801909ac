"""The last successes of a job's own kind: of the same name, in the same stage."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from longhaul.cli.target import Target
from longhaul.domain.lease import Lease, State
from longhaul.operations.find import LONG_AGO, has_ended_at

MOST: Final = 50
"""The most that are drawn."""

LOOKED_AT: Final = 500
"""Successes of the stage among which they are looked for."""

_EVERY: Final = timedelta(minutes=1)


class Successes:
    """Looked up once a minute; a row that is known is not read again."""

    def __init__(self, target: Target, stage: str) -> None:
        self._target, self._stage = target, stage
        self._known: dict[str, Lease] = {}
        self._looked_at: datetime | None = None

    def of(self, row: Lease) -> Sequence[Lease]:
        """Those of the same name, the latest first; none of a job whose name is not known."""
        if row.is_mark or row.input.job is None:
            return ()
        now = self._target.parts.clock.now()
        if self._looked_at is None or now - self._looked_at >= _EVERY:
            self._look(now)
        return [each for each in self._known.values() if each.input.job == row.input.job][:MOST]

    def _look(self, now: datetime) -> None:
        index = self._target.jobs.index
        keys = index.ended_keys(self._stage, State.SUCCEEDED, now, LONG_AGO, LOOKED_AT)
        ends = {key: at for at, key in islice(keys, LOOKED_AT)}
        known = {
            key: self._known[key]
            for key, at in ends.items()
            if key in self._known and has_ended_at(self._known[key], at)
        }
        read = self._target.parts.leases.load_many(key for key in ends if key not in known)
        rows = {**known, **dict(read.items())}
        self._known = {
            key: rows[key]
            for key, at in ends.items()
            if key in rows and has_ended_at(rows[key], at)
        }
        self._looked_at = now
