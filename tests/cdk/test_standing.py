"""What the stack costs by itself: docs/deploy.md counts what the template has."""

import json
from pathlib import Path

from tests.cdk.synthesis import Synthesis


def test_the_page_counts_the_alarms_and_metrics_of_the_template(usual: Synthesis) -> None:
    (dashboard,) = usual.resources("AWS::CloudWatch::Dashboard").values()
    widgets = json.loads(dashboard["DashboardBody"])["widgets"]
    shown = [metric for each in widgets for metric in each["properties"].get("metrics", [])]
    assert (len(usual.resources("AWS::CloudWatch::Alarm")), len(shown)) == (8 + 5, 15 + 4)
    page = Path("docs/deploy.md").read_text()
    assert "| alarms | 8 for the stage, 5 for the stack |" in page
    assert "| metrics | 15 of a stage that meets all, 4 of the sweeper |" in page


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
