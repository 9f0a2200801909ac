"""The dashboard and the alarms name the metrics that the handlers emit."""

import json

from longhaul.core.metrics import StageMetric, SweeperMetric
from tests.cdk.synthesis import Synthesis

Name = tuple[str, str, str, str]
"""Namespace, metric, dimension, its value."""


def known(*stages: str) -> set[Name]:
    """The metrics that the handlers emit.

    `tests/handlers/test_metrics.py` proves these names and dimensions.
    """
    return {("Longhaul", metric, "stage", stage) for metric in StageMetric for stage in stages} | {
        ("Longhaul", metric, "service", "sweeper") for metric in SweeperMetric
    }


def shown(synthesis: Synthesis) -> list[Name]:
    body = json.loads(synthesis.only("AWS::CloudWatch::Dashboard")["DashboardBody"])
    found = []
    for widget in body["widgets"]:
        for metric in widget["properties"].get("metrics", ()):
            namespace, name, dimension, value, *_ = metric
            found.append((namespace, name, dimension, value))
    return found


def test_the_dashboard_shows_each_metric_of_the_handlers_once_and_no_other(
    varied: Synthesis,
) -> None:
    names = shown(varied)

    assert set(names) == known("main", "clean_up")
    assert len(names) == len(set(names))


def test_alarms_on_our_metrics_name_metrics_that_the_handlers_emit(varied: Synthesis) -> None:
    watched = set()
    for alarm in varied.resources("AWS::CloudWatch::Alarm").values():
        dimensions = {each["Name"]: each["Value"] for each in alarm["Dimensions"]}
        if alarm["Namespace"] == "Longhaul" and "job" not in dimensions:  # a job's own metric
            ((name, value),) = dimensions.items()
            watched.add((alarm["Namespace"], alarm["MetricName"], name, value))

    assert watched < known("main", "clean_up")
