"""How CloudWatch evaluates an alarm on values that come late or never.

Sources: "Alarm evaluation" and "Configuring how CloudWatch alarms treat missing data" (CloudWatch
User Guide, alarm-evaluation.html and alarms-and-missing-data.html). An alarm is evaluated every
minute. It retrieves the values of its evaluation periods and of some before them (AWS does not say
how many: `extra`). With as many real values as evaluation periods, the most recent ones decide, and
the treatment of missing data is not used. With fewer, the missing ones are filled in as the alarm
says. A late value counts once it has arrived, for the time that it measures.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

State = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]
Missing = Literal["breaching", "notBreaching", "ignore"]

MAX_LATE_S = 900
EVALUATED_EVERY_S = 60

_STATISTICS: Mapping[str, Callable[[list[float]], float]] = {
    "Sum": sum,
    "Maximum": max,
    "Minimum": min,
    "Average": lambda values: sum(values) / len(values),
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": lambda value, threshold: value > threshold,
    "GreaterThanOrEqualToThreshold": lambda value, threshold: value >= threshold,
    "LessThanThreshold": lambda value, threshold: value < threshold,
    "LessThanOrEqualToThreshold": lambda value, threshold: value <= threshold,
}


class Value(NamedTuple):
    at: float  # the second that it measures
    value: float
    visible_at: float  # when it reaches CloudWatch


@dataclass(frozen=True)
class Alarm:
    period_s: int
    periods: int
    to_alarm: int
    statistic: str
    comparison: str
    threshold: float
    missing: Missing

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> "Alarm":
        """An alarm of a template."""
        return cls(
            period_s=properties["Period"],
            periods=properties["EvaluationPeriods"],
            to_alarm=properties.get("DatapointsToAlarm", properties["EvaluationPeriods"]),
            statistic=properties["Statistic"],
            comparison=properties["ComparisonOperator"],
            threshold=properties["Threshold"],
            missing=properties["TreatMissingData"],
        )

    def state(self, values: Iterable[Value], now: float, before: State, extra: int = 2) -> State:
        """The state after the evaluation at `now`."""
        real = self._periods(values, now, self.periods + extra)[: self.periods]
        breaching = sum(_COMPARISONS[self.comparison](value, self.threshold) for value in real)
        unknown = self.periods - len(real)
        if breaching >= self.to_alarm:
            return "ALARM"
        if unknown and self.missing == "breaching":
            return "ALARM" if breaching + unknown >= self.to_alarm else "OK"
        if unknown and self.missing == "ignore" and breaching == len(real):
            return before  # no value says that all is well
        return "OK"

    def _periods(self, values: Iterable[Value], now: float, count: int) -> list[float]:
        """The periods that have a value, the most recent first."""
        found: dict[int, list[float]] = {}
        for value in values:
            period = int((now - value.at) // self.period_s)
            if value.visible_at <= now and 0 <= period < count:
                found.setdefault(period, []).append(value.value)
        return [_STATISTICS[self.statistic](found[period]) for period in sorted(found)]

    def play(
        self,
        values: Sequence[Value],
        until: float,
        *,
        extra: int = 2,
        before: State = "INSUFFICIENT_DATA",
    ) -> list[tuple[float, State]]:
        """The second and the state of each evaluation, from the first minute."""
        states: list[tuple[float, State]] = []
        looked_at_s = self.period_s * (self.periods + extra) + self.period_s
        for minute in range(1, int(until // EVALUATED_EVERY_S) + 1):
            now = float(minute * EVALUATED_EVERY_S)
            before = self.state(
                (v for v in values if now - looked_at_s < v.at <= now), now, before, extra
            )
            states.append((now, before))
        return states


Lateness = Callable[[float, random.Random], float]
"""From the second of a value to its delay in seconds."""

LATENESSES: Mapping[str, Lateness] = {
    "at once": lambda _at, _rng: 0,
    "always as late as can be": lambda _at, _rng: MAX_LATE_S,
    "late at random": lambda _at, rng: rng.uniform(0, MAX_LATE_S),
    # Nothing for a quarter of an hour, then all of it.
    "late in batches": lambda at, _rng: -at % MAX_LATE_S,
}
