"""Metrics in CloudWatch's Embedded Metric Format: lines of the log, without a call or a wait."""

from collections.abc import Iterable, Mapping

from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
    AmazonCloudWatchEMFProvider,
)

from longhaul.core.metrics import Metric


class EmfMetrics:
    """`ports.Metrics`."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def put(self, values: Mapping[Metric, float], **dimensions: str) -> None:
        self._put([(each.value, each.unit, value) for each, value in values.items()], dimensions)

    def put_of_job(self, values: Mapping[str, float], *, stage: str, job: str) -> None:
        found = [(name, "None", value) for name, value in values.items()]
        self._put(found, {"stage": stage, "job": job})

    def _put(self, values: Iterable[tuple[str, str, float]], dimensions: Mapping[str, str]) -> None:
        """Print a line. `values`: name, unit and value of each."""
        # A provider for each line: Powertools' `Metrics` shares state between its instances, which
        # would mix the stages of one invocation. Empty `service`: as a dimension it would split a
        # stage's metric by function.
        line = AmazonCloudWatchEMFProvider(namespace=self._namespace, service="")
        for name, text in dimensions.items():
            line.add_dimension(name, text)
        for name, unit, value in values:
            line.add_metric(name, unit, value)
        line.flush_metrics()
