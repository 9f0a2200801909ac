"""The handlers' metrics as CDK metrics, for alarms and the dashboard."""

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from longhaul.config.settings import SWEEP_PERIOD
from longhaul.metrics import Metric, NoticeMetric, StageMetric, SweeperMetric, dimension

PERIOD: Duration = Duration.seconds(SWEEP_PERIOD.total_seconds())
"""Each period holds one value of every sweep."""

JOBS: Final = (
    StageMetric.STARTED,
    StageMetric.SUCCEEDED,
    StageMetric.FAILED,
    StageMetric.INTERRUPTED,
    StageMetric.NOT_PLACED,
    StageMetric.DEAD_LETTERED,
    StageMetric.WASTED,
)
"""Counts and sums about jobs."""

# The worst value of each period: of free slots and of the time left that is the minimum.
_WORST_IS_LEAST: Final = (StageMetric.FREE_SLOTS, StageMetric.LEASE_LEFT)


def of_stage(namespace: str, metric: Metric, stage: str, statistic: str) -> cloudwatch.Metric:
    return _metric(namespace, metric.value, {"stage": stage}, statistic)


def of_sweeper(namespace: str, metric: SweeperMetric, statistic: str) -> cloudwatch.Metric:
    return _metric(namespace, metric.value, {"service": "sweeper"}, statistic)


def of_job(namespace: str, name: str, stage: str, job: str, statistic: str) -> cloudwatch.Metric:
    """What the jobs of a name or path measure under a name, in a stage."""
    return _metric(namespace, name, {"stage": stage, "job": dimension(job)}, statistic)


def statistic_of(metric: Metric) -> str:
    """What one period says of it: the sum, or the worst value."""
    if isinstance(metric, SweeperMetric | NoticeMetric) or metric in JOBS:
        return "Sum"
    return "Minimum" if metric in _WORST_IS_LEAST else "Maximum"


def named(namespace: str, name: str, stage: str | None) -> cloudwatch.Metric:
    """The metric of that name, of a stage or of the sweeper.

    Raises:
        ValueError: there is none.
    """
    known = (
        {each.value: each for each in SweeperMetric}
        if stage is None
        else {each.value: each for each in (*StageMetric, *NoticeMetric)}
    )
    if name not in known:
        whose = "a metric of a stage needs its `stage`" if stage is None else "of a stage"
        raise ValueError(f"there is no metric {name!r} ({whose}); there are: {', '.join(known)}")
    metric = known[name]
    if isinstance(metric, SweeperMetric):
        return of_sweeper(namespace, metric, statistic_of(metric))
    return of_stage(namespace, metric, str(stage), statistic_of(metric))


def _metric(
    namespace: str, name: str, dimensions: dict[str, str], statistic: str
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dimensions,
        statistic=statistic,
        period=PERIOD,
    )
