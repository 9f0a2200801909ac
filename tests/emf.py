"""Metrics read back from what handlers printed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Datum:
    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]
    unit: str
    value: float


def metrics_in(printed: str) -> Iterator[Datum]:
    """The metrics that CloudWatch Logs extracts from lines in the Embedded Metric Format."""
    for line in printed.splitlines():
        if not line.startswith("{") or "_aws" not in (document := json.loads(line)):
            continue
        for directive in document["_aws"]["CloudWatchMetrics"]:
            for names in directive["Dimensions"]:
                dimensions = frozenset((name, document[name]) for name in names)
                for metric in directive["Metrics"]:
                    values = document[metric["Name"]]
                    for value in values if isinstance(values, list) else [values]:
                        yield Datum(
                            directive["Namespace"],
                            metric["Name"],
                            dimensions,
                            metric["Unit"],
                            value,
                        )
