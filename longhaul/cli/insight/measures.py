"""What the successes of a job took, wrote and measured. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from longhaul.domain.lease import Lease
from longhaul.domain.results import OTHERS
from longhaul.operations.find import moment_of

_KINDS: Final = ("seconds", "rows", "metric")


def measures(rows: Iterable[Lease]) -> Mapping[str, Mapping[str, float]]:
    """Durations in seconds, then rows, then metrics, each that two successes have.

    The numbers stand under the keys of their jobs.
    """
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        for name, value in _numbers(row).items():
            found.setdefault(name, {})[row.key] = value
    order = sorted(found, key=lambda name: (_KINDS.index(name.partition(" ")[0]), name))
    return {name: found[name] for name in order if len(found[name]) > 1}


def _numbers(row: Lease) -> Mapping[str, float]:
    seconds = (moment_of(row) - row.attempt.claimed_at).total_seconds()
    numbers = {"seconds": round(max(0.0, seconds), 1)}
    if row.results:
        rows = row.results.rows.items()
        numbers |= {
            "rows" if name == "." else f"rows of {name}": float(count)
            for name, count in rows
            if name != OTHERS
        }
        numbers |= {f"metric {name}": value for name, value in row.results.metrics.items()}
    return numbers
