"""The example of an app of somebody else's, deployed to the embedded AWS and used."""

import json
from pathlib import Path
from typing import Any

import pytest

from examples.cdk_app.stack import ReportsStack
from longhaul.cli.local.aws import embedded_aws, roles_judge
from tests.e2e.conftest import DEADLINE_S, Stack
from tests.local.support import eventually

# isort: split
from aws_cdk import App  # after `longhaul.cdk`, which tells jsii where Node is

pytestmark = pytest.mark.slow


def test_a_function_of_the_app_sends_a_job_and_another_hears_of_its_end(tmp_path: Path) -> None:
    assembly = tmp_path / "cdk.out"
    with embedded_aws(tmp_path / "aws", iam=roles_judge()) as aws:
        # As the local profile: the functions' packages are those of this environment.
        app = App(outdir=str(assembly), context={"aws:cdk:bundling-stacks": []})
        ReportsStack(app, "Reports", account=aws.account, region=aws.region)
        app.synth()
        stack = Stack(aws, aws.deploy(assembly, "Reports"))
        report = {"report": "one", "query": "SELECT 1 AS n"}

        answer = stack.client("lambda").invoke(
            FunctionName=stack.outputs["RequestFunction"], Payload=json.dumps(report)
        )

        assert answer.get("FunctionError") is None, answer["Payload"].read()
        ended = eventually(
            lambda: _ended(stack, "one"), "the end of the report", DEADLINE_S, story=stack.story
        )
        assert ended == {
            "outcome": "SUCCEEDED",
            "output": f"s3://{stack.bucket}/reports/one/",
            "reason": None,
        }
        assert stack.rows("reports/one") == [{"n": 1}]
        code, said, error = stack.longhaul("status", "one", "--stack", "Reports", "--json")
        assert code == 0, error
        assert json.loads(said.splitlines()[0])["state"] == "SUCCEEDED"


def _ended(stack: Stack, report: str) -> dict[str, Any] | None:
    s3, bucket = stack.client("s3"), stack.outputs["ReportsBucket"]
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
    if (key := f"ended/{report}.json") not in keys:
        return None
    found: dict[str, Any] = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    return found
