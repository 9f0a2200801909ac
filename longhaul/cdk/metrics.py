"""The handlers' metrics as CDK metrics, for alarms and the dashboard."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from longhaul.config.settings import SWEEP_PERIOD
from longhaul.metrics import Metric, SweeperMetric

PERIOD: Duration = Duration.seconds(SWEEP_PERIOD.total_seconds())
"""Each period holds one value of every sweep."""


def of_stage(namespace: str, metric: Metric, stage: str, statistic: str) -> cloudwatch.Metric:
    return _metric(namespace, metric.value, {"stage": stage}, statistic)


def of_sweeper(namespace: str, metric: SweeperMetric, statistic: str) -> cloudwatch.Metric:
    return _metric(namespace, metric.value, {"service": "sweeper"}, statistic)


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
