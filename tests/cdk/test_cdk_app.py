"""The example of an app of somebody else's, and the page about the construct."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from examples.cdk_app.stack import ReportsStack
from longhaul.cdk import Longhaul
from tests.cdk.synthesis import NO_COPIES, readable
from tests.layers import ROOT

# isort: split
from aws_cdk import App, Stack  # after `longhaul.cdk`, which tells jsii where Node is
from aws_cdk.assertions import Template


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    app = App(context=NO_COPIES)
    stack = ReportsStack(app, "Reports", account="123456789012", region="eu-central-1")
    content: dict[str, Any] = Template.from_stack(stack).to_json()
    assert looked_up(app) == []
    return content


def looked_up(app: App) -> list[Any]:
    """What the synthesis would ask of AWS, with credentials."""
    manifest = Path(app.synth().directory, "manifest.json")
    found: list[Any] = json.loads(manifest.read_text()).get("missing", [])
    return found


def of_type(template: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [
        readable(each["Properties"])
        for each in template["Resources"].values()
        if each["Type"] == kind
    ]


def test_the_examples_function_may_send_jobs_and_do_nothing_else(template: dict[str, Any]) -> None:
    (policy,) = (
        each
        for each in of_type(template, "AWS::IAM::Policy")
        if each["PolicyName"].startswith("RequestReport")
    )

    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Action"] == "sqs:SendMessage"
    assert statement["Resource"] == "<LonghaulReportsQueueJobs.Arn>"


def test_the_stack_of_the_page_synthesizes() -> None:
    """Each snippet of Python, in the order of the page, in one namespace."""
    page = (ROOT / "docs" / "construct.md").read_text().partition("\n## The client")[0]
    snippets = re.findall(r"(?ms)^```python$(.*?)^```$", page)
    names: dict[str, Any] = {"app": App(context=NO_COPIES)}
    assert len(snippets) > 1

    for snippet in snippets:
        exec(snippet, names)  # noqa: S102 - ours

    stack = names["stack"]
    assert isinstance(stack, Stack)
    assert isinstance(names["longhaul"], Longhaul)
    Template.from_stack(stack)
    assert looked_up(names["app"]) == []
