"""What the runs of a job took, wrote and measured, one after the other. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from longhaul.domain.lease import Lease
from longhaul.domain.results import OTHERS
from longhaul.operations.find import moment_of


@dataclass(frozen=True)
class Point:
    """A value, and the job that it comes from."""

    row: Lease
    value: float


@dataclass(frozen=True)
class Curve:
    """One number over the runs that have it, the earliest first."""

    name: str
    points: Sequence[Point]

    @property
    def values(self) -> Sequence[float]:
        return [each.value for each in self.points]

    def value_of(self, row: Lease) -> float | None:
        """None where that run has no such number."""
        return next((each.value for each in self.points if each.row.key == row.key), None)


def curves(rows: Iterable[Lease]) -> list[Curve]:
    """Durations in seconds, then rows, then metrics, each that two successes or more have."""
    points: dict[str, list[Point]] = {}
    for row in sorted(rows, key=lambda each: (moment_of(each), each.key)):
        for name, value in _numbers(row).items():
            points.setdefault(name, []).append(Point(row, value))
    found = [Curve(name, each) for name, each in points.items() if len(each) > 1]
    return sorted(found, key=lambda each: _order(each.name))


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
