"""The expressions of a stage's setting `alarms`."""

import pytest

from longhaul.config.metric_alarm import Watched, watched
from longhaul.config.stages import StageDeployment
from longhaul.core.emf import EmfMetrics
from tests.emf import Datum, metrics_in


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("parse: bad_rows > 100", Watched("parse", "bad_rows", ">", 100)),
        ("s3://b/jobs/a.py: share<=-0.5", Watched("s3://b/jobs/a.py", "share", "<=", -0.5)),
    ],
)
def test_an_expression_names_a_job_a_metric_and_a_threshold(
    expression: str, found: Watched
) -> None:
    assert watched(expression) == found


@pytest.mark.parametrize(
    "expression", ["", "bad_rows > 1", "parse: bad_rows", "parse: 1x > 1", "parse: x > y"]
)
def test_another_text_is_refused_with_an_example(expression: str) -> None:
    with pytest.raises(ValueError, match="as in `parse: bad_rows > 100`"):
        StageDeployment.model_validate({"name": "main", "advanced": {"alarms": [expression]}})


def test_what_a_job_measured_is_a_metric_of_its_stage_and_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    EmfMetrics("Longhaul").put_of_job({"bad_rows": 12}, stage="main", job="parse")

    dimensions = frozenset({("stage", "main"), ("job", "parse")})
    assert list(metrics_in(capsys.readouterr().out)) == [
        Datum("Longhaul", "bad_rows", dimensions, "None", 12)
    ]
