"""The handlers' metrics, as alarms and dashboard name them."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from infra.sweeping import PERIOD
from longhaul.metrics import StageMetric, SweeperMetric

EVERY: Duration = PERIOD
"""One value from every sweep in each period."""


def of_stage(namespace: str, metric: StageMetric, stage: str, statistic: str) -> cloudwatch.Metric:
    return _metric(namespace, metric.value, {"stage": stage}, statistic)


def of_sweeper(namespace: str, metric: SweeperMetric, statistic: str) -> cloudwatch.Metric:
    return _metric(namespace, metric.value, {"service": "sweeper"}, statistic)


def _metric(namespace: str, name: str, dimensions: dict[str, str], statistic: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace, metric_name=name, dimensions_map=dimensions, statistic=statistic, period=EVERY
    )
