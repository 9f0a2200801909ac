"""A queue's metrics as CloudWatch knows them: late, silent after idle hours, then all at once.

Source: "Available CloudWatch metrics for Amazon SQS" (SQS Developer Guide): a queue is active for
six hours after the last call; the metrics of one that becomes active are up to 15 minutes late.
"""

import random
from collections.abc import Mapping
from typing import Protocol

from simulation.aws.cloudwatch import MAX_LATE_S, Value

ACTIVE_S = 21_600
_KEPT_S = 3600


class Metrics(Protocol):
    def record(self, at: float, counts: Mapping[str, int], called_at: float) -> None:
        """SQS measures; `called_at` is the second of the last call to the queue."""
        ...

    def known(self, now: float) -> list[Value]:
        """What an alarm on their sum sees."""
        ...


class LateAlways:
    """One sum, each value of which is up to 15 minutes late."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._values: list[Value] = []

    def record(self, at: float, counts: Mapping[str, int], called_at: float) -> None:
        del called_at
        self._values = [value for value in self._values if value.at > at - _KEPT_S]
        late_s = self._rng.uniform(0, MAX_LATE_S)
        self._values.append(Value(at, sum(counts.values()), at + late_s))

    def known(self, now: float) -> list[Value]:
        return [value for value in self._values if value.visible_at <= now]


class LateAfterIdle:
    """Each metric by itself: nothing while the queue is inactive, and up to 15 minutes more.

    Then comes all that was measured since the queue woke, and later values are on time. The sum of
    a minute is that of the metrics that have come.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._shown_at: dict[str, float] = {}  # empty while the queue is inactive
        self._values: dict[str, list[Value]] = {}

    def record(self, at: float, counts: Mapping[str, int], called_at: float) -> None:
        if at - called_at > ACTIVE_S:
            self._shown_at = {}
            return
        for name, count in counts.items():
            shown_at = self._shown_at.setdefault(name, at + self._rng.uniform(0, MAX_LATE_S))
            kept = [value for value in self._values.get(name, []) if value.at > at - _KEPT_S]
            self._values[name] = [*kept, Value(at, count, max(at, shown_at))]

    def known(self, now: float) -> list[Value]:
        sums: dict[float, float] = {}
        for values in self._values.values():
            for value in values:
                if value.visible_at <= now:
                    sums[value.at] = sums.get(value.at, 0) + value.value
        return [Value(at, total, at) for at, total in sums.items()]
