"""An alarm on what jobs measure, as a stage's setting `alarms` has it. Imports no CDK."""

import re
from typing import Annotated, Final, Literal, NamedTuple, cast

from pydantic import AfterValidator

from longhaul.core.results import METRIC_RULE, metric_problem

Comparison = Literal[">", ">=", "<", "<="]

_EXPRESSION: Final = re.compile(
    r"(?P<job>\S{1,250}): *(?P<metric>\S+) *(?P<comparison>>=|<=|>|<) *"
    r"(?P<threshold>-?[0-9]{1,15}(\.[0-9]{1,9})?)"
)


class Watched(NamedTuple):
    """What an alarm looks at. It rings when a value compares so with the threshold."""

    job: str
    metric: str
    comparison: Comparison
    threshold: float


def watched(expression: str) -> Watched:
    """The parts of an expression, such as `parse: bad_rows > 100`.

    Raises:
        ValueError: it is none.
    """
    found = _EXPRESSION.fullmatch(expression)
    if found is None or metric_problem(found["metric"]):
        raise ValueError(
            f"{expression[:100]!r} is no alarm: write `JOB: METRIC > NUMBER`, as in"
            f" `parse: bad_rows > 100`, with >, >=, < or <=; a metric is {METRIC_RULE}"
        )
    comparison = cast("Comparison", found["comparison"])
    return Watched(found["job"], found["metric"], comparison, float(found["threshold"]))


def _checked(expression: str) -> str:
    watched(expression)
    return expression


MetricAlarm = Annotated[str, AfterValidator(_checked)]
"""An expression that `watched` takes."""
