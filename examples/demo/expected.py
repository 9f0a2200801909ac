"""The figures that the demo must produce, computed from the CSV files without Spark."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class DayOfCarrier:
    flights: int = 0
    cancelled: int = 0
    delays: list[int] = field(default_factory=list)

    @property
    def mean(self) -> float | None:
        return sum(self.delays) / len(self.delays) if self.delays else None

    @property
    def p95(self) -> float | None:
        """The 95th percentile in minutes, interpolated linearly between ranks."""
        if not self.delays:
            return None
        ordered = sorted(self.delays)
        below, share = divmod(0.95 * (len(ordered) - 1), 1)
        above = min(int(below) + 1, len(ordered) - 1)
        return ordered[int(below)] * (1 - share) + ordered[above] * share


def daily_delays(months: Iterable[Path]) -> dict[tuple[str, str], DayOfCarrier]:
    """The figures by day (`2013-01-31`) and carrier. Delays are in minutes."""
    found: dict[tuple[str, str], DayOfCarrier] = {}
    for month in months:
        with month.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                day = f"{row['year']}-{int(row['month']):02d}-{int(row['day']):02d}"
                of = found.setdefault((day, row["carrier"]), DayOfCarrier())
                of.flights += 1
                if row["dep_time"] == "NA":
                    of.cancelled += 1
                if row["dep_delay"] != "NA":
                    of.delays.append(int(row["dep_delay"]))
    return found
