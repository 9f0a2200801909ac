"""Metrics in CloudWatch's Embedded Metric Format: lines of the log, without a call or a wait."""

from collections.abc import Mapping

from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
    AmazonCloudWatchEMFProvider,
)

from longhaul.metrics import Metric


class EmfMetrics:
    """`ports.Metrics`."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def put(self, values: Mapping[Metric, float], **dimensions: str) -> None:
        # A provider for each line: Powertools' `Metrics` shares state between its instances, which
        # would mix the stages of one invocation. Empty `service`: as a dimension it would split a
        # stage's metric by function.
        line = AmazonCloudWatchEMFProvider(namespace=self._namespace, service="")
        for name, text in dimensions.items():
            line.add_dimension(name, text)
        for metric, value in values.items():
            line.add_metric(metric.value, metric.unit, value)
        line.flush_metrics()
