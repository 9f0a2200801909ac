"""The handlers' metrics as CDK metrics, for alarms, and the dashboard that shows them all."""

from collections.abc import Iterable, Sequence
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from longhaul.config.settings import SWEEP_PERIOD
from longhaul.config.stages import StageDeployment
from longhaul.core.metrics import Metric, NoticeMetric, StageMetric, SweeperMetric, dimension

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

_GAUGES = {
    "capacity": (StageMetric.BACKLOG, StageMetric.FREE_SLOTS),
    "waiting": (StageMetric.OLDEST_WAITING, StageMetric.OLDEST_REFUSED, StageMetric.BLOCKED),
    "leases": (StageMetric.LEASE_LEFT, StageMetric.WITHOUT_BEAT, StageMetric.NEAR_RETENTION),
}
_WIDTH = 24

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
    kinds: Iterable[Metric] = (*StageMetric, *NoticeMetric) if stage else SweeperMetric
    known = {each.value: each for each in kinds}
    if name not in known:
        whose = "of a stage" if stage else "a metric of a stage needs its `stage`"
        raise ValueError(f"there is no metric {name!r} ({whose}); there are: {', '.join(known)}")
    dimensions = {"stage": stage} if stage else {"service": "sweeper"}
    return _metric(namespace, name, dimensions, statistic_of(known[name]))


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


class Dashboard(Construct):
    """The alarms, then a row for each stage with all metrics of the handlers."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        stages: Sequence[StageDeployment],
        alarms: Sequence[cloudwatch.IAlarm],
    ) -> None:
        """`name` is the name of the dashboard and the namespace of the metrics."""
        super().__init__(scope, id_)
        swept = [of_sweeper(name, metric, "Sum") for metric in SweeperMetric]
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=name,
            widgets=[
                [
                    cloudwatch.AlarmStatusWidget(
                        title="Alarms", alarms=alarms, width=_WIDTH * 3 // 4
                    ),
                    _graph("Sweeper", swept, _WIDTH // 4),
                ],
                *([*_row(name, stage)] for stage in stages),
            ],
        )


def _row(namespace: str, deployment: StageDeployment) -> Iterable[cloudwatch.IWidget]:
    stage, width = deployment.name, _WIDTH // (1 + len(_GAUGES))
    jobs = (*JOBS, NoticeMetric.LOST) if deployment.advanced.notify else JOBS
    for title, metrics in {"jobs": jobs, **_GAUGES}.items():
        shown = [of_stage(namespace, metric, stage, statistic_of(metric)) for metric in metrics]
        yield _graph(f"{stage}: {title}", shown, width)


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric], width: int) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=metrics, width=width)
