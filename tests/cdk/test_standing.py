"""What the stack costs by itself, counted in the template."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from longhaul.cli.insight.prices import read_prices
from longhaul.cli.insight.standing import alarms, metrics, standing
from longhaul.settings import RuntimeSettings
from tests.builders import settings, stage
from tests.cdk.synthesis import Synthesis, synthesize

RETIRED: dict[str, JsonValue] = {
    "stages": [{"name": "main"}, {"name": "old", "advanced": {"retired": True}}]
}


@pytest.fixture(params=["usual", "varied", "with_all", "with_tiny", "retired"])
def synthesis(request: pytest.FixtureRequest, tmp_path: Path) -> Synthesis:
    if request.param == "retired":
        return synthesize(tmp_path / "retired", RETIRED)
    found: Synthesis = request.getfixturevalue(request.param)
    return found


def test_alarms_metrics_and_dashboards_are_those_of_the_template(synthesis: Synthesis) -> None:
    function = synthesis.resources("AWS::Lambda::Function")["Sweeper"]
    stages = RuntimeSettings.model_validate_json(
        function["Environment"]["Variables"]["LONGHAUL_SETTINGS"]
    ).stages
    (dashboard,) = synthesis.resources("AWS::CloudWatch::Dashboard").values()
    widgets = json.loads(dashboard["DashboardBody"])["widgets"]
    shown = [metric for each in widgets for metric in each["properties"].get("metrics", [])]

    # Those of a stage's `alarms` are over metrics of jobs, which the functions do not know either.
    ours = [
        each
        for each in synthesis.resources("AWS::CloudWatch::Alarm").values()
        if all(dimension["Name"] != "job" for dimension in each.get("Dimensions", ()))
    ]
    assert alarms(stages) == len(ours)
    assert metrics(stages) == len(shown)


def test_the_template_has_nothing_else_that_costs_while_nothing_runs(usual: Synthesis) -> None:
    kinds = {resource["Type"] for resource in usual.template["Resources"].values()}

    assert not kinds & {
        "AWS::EC2::EIP",
        "AWS::EC2::NatGateway",
        "AWS::ECS::Service",
        "AWS::KMS::Key",
        "AWS::SecretsManager::Secret",
    }
    # Endpoints of this type are free.
    assert all(
        each["VpcEndpointType"] == "Gateway"
        for each in usual.resources("AWS::EC2::VPCEndpoint").values()
    )
    assert all(
        each["BillingMode"] == "PAY_PER_REQUEST"
        for each in usual.resources("AWS::DynamoDB::Table").values()
    )


def test_a_month_of_one_stage_is_what_the_page_says() -> None:
    page = Path("docs/deploy.md").read_text()

    found = standing(settings(), read_prices())

    for what, amount in found.items():
        assert f"| {what} | " in page
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {what} | "))
        assert row.endswith(f"| {amount:.2f} |")


def test_a_retired_stage_is_polled_and_has_fewer_alarms() -> None:
    main = settings()
    two = main.model_copy(update={"stages": (stage(), stage(name="old", retired=True))})

    one, more = (standing(each, read_prices()) for each in (main, two))

    assert more["pollers"] == 2 * one["pollers"]
    assert more["alarms"] == pytest.approx(one["alarms"] + 0.4)
