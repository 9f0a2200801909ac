"""The attempts of jobs that are shown repeatedly, read only when they have changed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from longhaul.domain.history import AttemptRecord, history
from longhaul.domain.lease import Lease
from longhaul.ports import Leases


class Histories:
    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._kept: dict[str, tuple[Any, Sequence[AttemptRecord]]] = {}

    def of(self, rows: Iterable[Lease]) -> Mapping[str, Sequence[AttemptRecord]]:
        """The attempts of each job, by its key. Forgets all other jobs."""
        wanted = {row.key: row for row in rows if not row.is_mark}
        kept = {key: self._kept[key] for key, row in wanted.items() if self._is_known(row)}
        missing = [row for key, row in wanted.items() if key not in kept]
        for key, attempts in self._leases.history(missing).items() if missing else ():
            kept[key] = (
                _version(wanted[key]),
                [each for each in attempts if each.ended_at is not None],
            )
        self._kept = kept
        return {key: history(row, kept[key][1]) for key, row in wanted.items()}

    def _is_known(self, row: Lease) -> bool:
        return row.key in self._kept and self._kept[row.key][0] == _version(row)


def _version(row: Lease) -> tuple[Any, ...]:
    """Changes whenever the remembered attempts do: one ends, or is found to be void."""
    return row.run, row.settled_attempt, row.settled_at, row.last_class, row.state.is_terminal
