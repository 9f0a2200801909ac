"""The attempts of jobs that are shown again and again: read when a job's attempts have changed, and not otherwise."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from longhaul.domain.history import Attempt, history
from longhaul.domain.lease import Lease
from longhaul.ports import LeaseStore


class Histories:
    def __init__(self, leases: LeaseStore) -> None:
        self._leases = leases
        self._kept: dict[str, tuple[Any, Sequence[Attempt]]] = {}

    def of(self, rows: Iterable[Lease]) -> Mapping[str, Sequence[Attempt]]:
        """The attempts of each job, by its key; what else was known is forgotten."""
        wanted = {row.key: row for row in rows if not row.is_mark}
        kept = {key: self._kept[key] for key, row in wanted.items() if self._is_known(row)}
        missing = [row for key, row in wanted.items() if key not in kept]
        for key, attempts in self._leases.history(missing).items() if missing else ():
            kept[key] = (_version(wanted[key]), [each for each in attempts if each.ended_at is not None])
        self._kept = kept
        return {key: history(row, kept[key][1]) for key, row in wanted.items()}

    def _is_known(self, row: Lease) -> bool:
        return row.key in self._kept and self._kept[row.key][0] == _version(row)


def _version(row: Lease) -> tuple[Any, ...]:
    """What changes when the items beside a row do: an attempt ends, or what was remembered of it turns out to be void."""
    return row.run, row.settled_attempt, row.settled_at, row.last_class, row.state.is_terminal
