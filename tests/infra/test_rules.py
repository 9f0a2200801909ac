"""What general rules say about the template as a whole."""

import json
import os
from pathlib import Path

import pytest
from cfnlint import lint_file
from cfnlint.config import ManualArgs

from tests.infra.synthesis import Synthesis

SNAPSHOT = Path(__file__).parent / "snapshots" / "Longhaul.template.json"


@pytest.fixture(params=["usual", "varied", "with_emr"])
def synthesis(request: pytest.FixtureRequest) -> Synthesis:
    found: Synthesis = request.getfixturevalue(request.param)
    return found


def test_cdk_nag_finds_nothing_that_is_not_acknowledged(synthesis: Synthesis) -> None:
    reports = {report["pluginName"]: report for report in synthesis.report["pluginReports"]}

    nag = reports["AwsSolutions"]
    assert [
        (violation["ruleName"], place["constructPath"])
        for violation in nag["violations"]
        for place in violation["violatingConstructs"]
    ] == []
    assert nag["conclusion"] == "success"
    # Nothing acknowledged would mean that nag did not look.
    assert nag["suppressedViolations"]


def test_cfn_lint_finds_nothing(synthesis: Synthesis) -> None:
    # W3005: a DependsOn that a GetAtt implies already. CDK writes those, so that a role's policy is there before what uses it.
    config = ManualArgs(regions=["us-east-1", "eu-central-1"], ignore_checks=["W3005"])

    assert [str(match) for match in lint_file(synthesis.template_file, config=config)] == []


def test_there_is_no_custom_resource(synthesis: Synthesis) -> None:
    kinds = {resource["Type"] for resource in synthesis.template["Resources"].values()}

    assert not {kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation::"))}


def test_the_template_is_the_one_that_was_reviewed(usual: Synthesis) -> None:
    """`UPDATE_SNAPSHOTS=1 pytest tests/infra` takes the new template as reviewed: read its diff."""
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        SNAPSHOT.parent.mkdir(exist_ok=True)
        SNAPSHOT.write_text(json.dumps(usual.masked, indent=1) + "\n")

    assert usual.masked == json.loads(SNAPSHOT.read_text())
