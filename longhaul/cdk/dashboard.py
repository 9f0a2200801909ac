"""One dashboard: the alarms, then a row for each stage with all metrics of the handlers."""

from collections.abc import Iterable, Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from longhaul.cdk.metrics import JOBS, of_stage, of_sweeper, statistic_of
from longhaul.config.stages import StageDeployment
from longhaul.metrics import NoticeMetric, StageMetric, SweeperMetric

_GAUGES = {
    "capacity": (StageMetric.BACKLOG, StageMetric.FREE_SLOTS),
    "waiting": (StageMetric.OLDEST_WAITING, StageMetric.OLDEST_REFUSED, StageMetric.BLOCKED),
    "leases": (StageMetric.LEASE_LEFT, StageMetric.WITHOUT_BEAT, StageMetric.NEAR_RETENTION),
}
_WIDTH = 24


class Dashboard(Construct):
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
