"""Many jobs in a few numbers: outcomes, waits, retries. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from longhaul.domain.lease import State
from longhaul.domain.timeline import Lane, SegmentKind, went_wrong


@dataclass(frozen=True)
class Spread:
    """Of some durations, in seconds: how many, the middle one, the one that 95 % do not exceed, the longest."""

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
class Digest:
    """`wrong`: classes of the attempts that were for nothing. `waits` are for messages and slots, `back_offs` between attempts; both per attempt."""

    jobs: int
    states: Counter[State]
    attempts: int
    retries: int  # beyond each job's first, as far as they are remembered
    wrong: Counter[str]
    waits: Spread
    back_offs: Spread
    starts: Spread
    runs: Spread


def digest(lanes: Sequence[Lane], now: datetime) -> Digest:
    def spread(kind: SegmentKind) -> Spread:
        return Spread.of(each.seconds(now) for lane in lanes for each in lane.segments if each.kind is kind)

    attempts = [attempt for lane in lanes for attempt in lane.attempts]
    return Digest(
        jobs=len(lanes),
        states=Counter(lane.row.state for lane in lanes),
        attempts=len(attempts),
        retries=sum(max(0, len(lane.attempts) - 1) for lane in lanes),
        wrong=Counter(attempt.kind or "unknown" for attempt in attempts if went_wrong(attempt)),
        waits=spread(SegmentKind.WAITING),
        back_offs=spread(SegmentKind.BACKING_OFF),
        starts=spread(SegmentKind.STARTING),
        runs=spread(SegmentKind.RUNNING),
    )
