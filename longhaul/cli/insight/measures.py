"""What the successes of a job took, wrote and measured. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from longhaul.domain.lease import Lease
from longhaul.domain.results import OTHERS
from longhaul.operations.find import moment_of


@dataclass(frozen=True)
class Measure:
    """One number of the jobs that have it, by their keys."""

    name: str
    of: Mapping[str, float]


def measures(rows: Iterable[Lease]) -> list[Measure]:
    """Durations in seconds, then rows, then metrics, each that two successes or more have."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        for name, value in _numbers(row).items():
            found.setdefault(name, {})[row.key] = value
    measures = [Measure(name, of) for name, of in found.items() if len(of) > 1]
    return sorted(measures, key=lambda each: _order(each.name))


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


def _order(name: str) -> tuple[int, str]:
    kinds = ("seconds", "rows", "metric")
    return kinds.index(name.partition(" ")[0]), name
