"""What CloudFormation accepts and AWS refuses later, by rules that were reproduced on AWS.

https://github.com/badmintoncryer/cdk-preflight
"""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from tests.cdk.conftest import GUARDED, VARIED, WITH_ENGINES
from tests.cdk.synthesis import Synthesis, synthesize

# isort: split
from aws_cdk import App  # after `longhaul.cdk`, which tells jsii where Node is
from aws_cdk.aws_stepfunctions import CfnStateMachine

rules: Any = pytest.importorskip(
    "cdk_preflight",
    reason="cdk-preflight is not installed: pip install -r requirements-dev.txt",
)


@pytest.mark.parametrize(
    "settings",
    [
        # Both other engines, and what a platform team may ask for.
        pytest.param({**GUARDED, **WITH_ENGINES}, id="all"),
        pytest.param({}, id="usual", marks=pytest.mark.slow),
        pytest.param(VARIED, id="varied", marks=pytest.mark.slow),
    ],
)
def test_cdk_preflight_finds_nothing(tmp_path: Path, settings: dict[str, JsonValue]) -> None:
    assert findings(synthesize(tmp_path, settings, more=rules.Preflight.apply)) == []


def test_cdk_preflight_finds_a_planted_error(tmp_path: Path) -> None:
    """The report is empty where it finds nothing, as if it had not run."""

    def plant(app: App) -> None:
        machine = next(each for each in app.node.find_all() if isinstance(each, CfnStateMachine))
        machine.definition_string = json.dumps(
            {"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "Gone"}}}
        )
        rules.Preflight.apply(app)

    assert "pf-sfn-asl-missing-state" in findings(synthesize(tmp_path, {}, more=plant))


def findings(synthesis: Synthesis) -> list[str]:
    return [
        violation["ruleName"]
        for report in synthesis.report["pluginReports"]
        for violation in report["violations"]
        if violation["ruleName"].startswith("pf-")
    ]
