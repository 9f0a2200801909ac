"""One dashboard: the alarms, then a row for each stage with all metrics of the handlers."""

from collections.abc import Iterable, Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from longhaul.cdk.metrics import of_stage, of_sweeper
from longhaul.config.stages import StageDeployment
from longhaul.metrics import NoticeMetric, StageMetric, SweeperMetric

_JOBS = (
    StageMetric.STARTED,
    StageMetric.SUCCEEDED,
    StageMetric.FAILED,
    StageMetric.INTERRUPTED,
    StageMetric.NOT_PLACED,
    StageMetric.DEAD_LETTERED,
    StageMetric.WASTED,
)
# The worst value of each period: of free slots and of the time left that is the minimum.
_GAUGES = {
    "capacity": {StageMetric.BACKLOG: "Maximum", StageMetric.FREE_SLOTS: "Minimum"},
    "waiting": {
        StageMetric.OLDEST_WAITING: "Maximum",
        StageMetric.OLDEST_REFUSED: "Maximum",
        StageMetric.BLOCKED: "Maximum",
    },
    "leases": {
        StageMetric.LEASE_LEFT: "Minimum",
        StageMetric.WITHOUT_BEAT: "Maximum",
        StageMetric.NEAR_RETENTION: "Maximum",
    },
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
    jobs = (*_JOBS, NoticeMetric.LOST) if deployment.notify else _JOBS
    yield _graph(
        f"{stage}: jobs", [of_stage(namespace, metric, stage, "Sum") for metric in jobs], width
    )
    for title, metrics in _GAUGES.items():
        shown = [
            of_stage(namespace, metric, stage, statistic) for metric, statistic in metrics.items()
        ]
        yield _graph(f"{stage}: {title}", shown, width)


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric], width: int) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=metrics, width=width)
