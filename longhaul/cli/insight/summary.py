"""Many jobs in a few numbers: outcomes, waits, retries. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from longhaul.cli.insight.timeline import Lane, SegmentKind, went_wrong
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import State

_VARYING = re.compile(r"[0-9a-f]{8}[0-9a-f-]*|\d+")


@dataclass(frozen=True)
class Spread:
    """Durations in seconds: their number, median, 95th percentile and maximum."""

    count: int
    median: float
    p95: float
    longest: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> "Spread":
        ordered = sorted(seconds)
        if not ordered:
            return cls(0, 0.0, 0.0, 0.0)

        def rank(share: float) -> float:
            return ordered[ceil(share * len(ordered)) - 1]

        return cls(len(ordered), rank(0.5), rank(0.95), ordered[-1])


@dataclass(frozen=True)
class Summary:
    """Many jobs in a few numbers.

    `wrong` counts the classes of wasted attempts. `waits` are waits for a message or a slot,
    `back_offs` the waits between attempts: one of each for an attempt.
    """

    jobs: int
    states: Counter[State]
    attempts: int
    retries: int  # attempts after each job's first that are remembered
    wrong: Counter[str]
    waits: Spread
    back_offs: Spread
    starts: Spread
    runs: Spread


def summarize(lanes: Sequence[Lane], now: datetime) -> Summary:
    def spread(kind: SegmentKind) -> Spread:
        return Spread.of(
            each.seconds(now) for lane in lanes for each in lane.segments if each.kind is kind
        )

    attempts = [record for lane in lanes for record in lane.attempts]
    return Summary(
        jobs=len(lanes),
        states=Counter(lane.row.state for lane in lanes),
        attempts=len(attempts),
        retries=sum(max(0, len(lane.attempts) - 1) for lane in lanes),
        wrong=Counter(record.kind or "unknown" for record in attempts if went_wrong(record)),
        waits=spread(SegmentKind.WAITING),
        back_offs=spread(SegmentKind.BACKING_OFF),
        starts=spread(SegmentKind.STARTING),
        runs=spread(SegmentKind.RUNNING),
    )


@dataclass(frozen=True)
class Repeated:
    """Wasted attempts of one class with one reason, whatever numbers and ids are in it.

    `reason` is the latest one, `first_at` and `last_at` are ends of attempts.
    """

    kind: str
    reason: str
    attempts: int
    jobs: int
    first_at: datetime
    last_at: datetime


def repeated(records: Iterable[AttemptRecord]) -> list[Repeated]:
    """The reasons of wasted attempts that came more than once, the most frequent first."""
    groups: dict[tuple[str, str], list[tuple[datetime, AttemptRecord]]] = defaultdict(list)
    for each in records:
        if went_wrong(each) and each.ended_at is not None:
            alike = _VARYING.sub("#", each.reason or "")
            groups[each.kind or "unknown", alike].append((each.ended_at, each))
    found = []
    for (kind, _), members in groups.items():
        members.sort(key=lambda member: member[0])
        last_at, last = members[-1]
        jobs = len({each.key for _, each in members})
        found.append(Repeated(kind, last.reason or "", len(members), jobs, members[0][0], last_at))
    found = [each for each in found if each.attempts > 1]
    return sorted(found, key=lambda each: (-each.attempts, each.kind, each.reason))
