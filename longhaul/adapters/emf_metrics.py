"""Metrics in CloudWatch's Embedded Metric Format: a line on stdout, which Lambda takes to the log and CloudWatch Logs makes metrics of. No call, no wait."""

from collections.abc import Mapping

from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from longhaul.metrics import Metric


class EmfMetrics:
    """`ports.Metrics`."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def put(self, values: Mapping[Metric, float], **dimensions: str) -> None:
        # A provider for each line: what Powertools' `Metrics` shares between its instances would mix the stages of one invocation. An empty service, so that
        # it does not become a dimension, which would part what two functions say of one stage.
        line = AmazonCloudWatchEMFProvider(namespace=self._namespace, service="")
        for name, text in dimensions.items():
            line.add_dimension(name, text)
        for metric, value in values.items():
            line.add_metric(metric.value, metric.unit, value)
        line.flush_metrics()
