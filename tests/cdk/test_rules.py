"""Linters and the snapshot, on the whole template."""

import json
import os
from pathlib import Path

import pytest
from cfnlint import lint_file
from cfnlint.config import ManualArgs
from statelint.config import Config
from statelint.linter import Linter
from statelint.problem import ProblemType

from tests.cdk.synthesis import Synthesis

SNAPSHOT = Path(__file__).parent / "snapshots" / "Longhaul.template.json"


@pytest.fixture(params=["usual", "varied", "with_emr", "with_tiny", "guarded"])
def synthesis(request: pytest.FixtureRequest) -> Synthesis:
    found: Synthesis = request.getfixturevalue(request.param)
    return found


def test_nothing_is_found_that_is_not_acknowledged(synthesis: Synthesis) -> None:
    """By cdk-nag, nor by the CDK, which knows values that CloudFormation refuses."""
    reports = {report["pluginName"]: report for report in synthesis.report["pluginReports"]}
    assert [
        (violation["ruleName"], violation["description"])
        for name, report in reports.items()
        for violation in report["violations"]
        if name == "AwsSolutions" or violation["severity"] == "error"
    ] == []
    # If nothing is suppressed, nag did not run.
    assert reports["AwsSolutions"]["suppressedViolations"]


@pytest.mark.parametrize(
    "name",
    [
        "usual",
        "varied",
        pytest.param("with_emr", marks=pytest.mark.slow),
        pytest.param("with_tiny", marks=pytest.mark.slow),
        pytest.param("guarded", marks=pytest.mark.slow),
    ],
)
def test_cfn_lint_finds_nothing(name: str, request: pytest.FixtureRequest) -> None:
    # W3005: a DependsOn that a GetAtt already implies. CDK adds it, so that a role's policy exists
    # before what uses it. W3010: zones by name, where a setting names them.
    ignored = ["W3005", "W3010"]
    config = ManualArgs(regions=["us-east-1", "eu-central-1"], ignore_checks=ignored)

    template = request.getfixturevalue(name).template_file

    assert [str(match) for match in lint_file(template, config=config)] == []


def test_statelint_finds_nothing(synthesis: Synthesis) -> None:
    # FLOAT: it wants `2.0` as a BackoffRate, because of Ruby; AWS takes `2`.
    config = Config(ignored_problem_types=[ProblemType.FLOAT])
    assert Linter.validate(synthesis.definition, config) == []


def test_there_is_no_custom_resource(synthesis: Synthesis) -> None:
    kinds = {resource["Type"] for resource in synthesis.template["Resources"].values()}

    assert not {kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation::"))}


def test_the_template_equals_the_reviewed_snapshot(usual: Synthesis) -> None:
    """`UPDATE_SNAPSHOTS=1 pytest tests/cdk` writes a new snapshot: review its diff."""
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        SNAPSHOT.parent.mkdir(exist_ok=True)
        SNAPSHOT.write_text(json.dumps(usual.masked, indent=1) + "\n")

    assert usual.masked == json.loads(SNAPSHOT.read_text())


@pytest.mark.parametrize(
    ("name", "snapshot"),
    [
        # The simulation reads these two.
        ("with_tiny", "tiny.template.json"),
        ("with_engines", "engines.template.json"),
        ("varied", "varied.template.json"),
        ("guarded", "guarded.template.json"),
    ],
)
def test_what_settings_change_equals_the_reviewed_snapshot(
    usual: Synthesis, name: str, snapshot: str, request: pytest.FixtureRequest
) -> None:
    """What a setting does in the template is reviewed here. Renewed as the other one."""
    synthesis: Synthesis = request.getfixturevalue(name)
    before, after = usual.masked["Resources"], synthesis.masked["Resources"]
    changed = {name: each for name, each in after.items() if before.get(name) != each}
    file = SNAPSHOT.with_name(snapshot)
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        file.write_text(json.dumps({"Resources": changed}, indent=1) + "\n")

    assert changed == json.loads(file.read_text())["Resources"]
