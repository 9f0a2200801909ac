"""The stack with the size tiny: a Lambda function made of the jobs' image."""

import json
from typing import Any

import pytest
from pydantic import JsonValue
from statelint.config import Config
from statelint.linter import Linter
from statelint.problem import ProblemType

from longhaul.config.cdk_context import load
from longhaul.config.errors import SettingsError
from longhaul.engines.aws_lambda.ends import MAX_TIMEOUT_S
from longhaul.settings import VARIABLE, RuntimeSettings
from tests.cdk.synthesis import Synthesis
from tests.cdk.test_grants import TABLE, WRITES_OBJECTS
from tests.cdk.test_locking import pins
from tests.layers import ROOT

FUNCTION = "LambdaFunction"


@pytest.fixture
def function(with_tiny: Synthesis) -> dict[str, Any]:
    return with_tiny.resources("AWS::Lambda::Function")[FUNCTION]


@pytest.fixture
def states(with_tiny: Synthesis) -> dict[str, Any]:
    found: dict[str, Any] = with_tiny.definition["States"]["RunUnderLease"]["Branches"][0]["States"]
    return found


def test_without_the_setting_nothing_of_it_is_in_the_template(usual: Synthesis) -> None:
    assert "tiny" not in json.dumps(usual.template)


def test_the_setting_adds_a_function_and_its_role_and_removes_nothing(
    usual: Synthesis, with_tiny: Synthesis
) -> None:
    before, after = usual.template["Resources"], with_tiny.template["Resources"]
    added = after.keys() - before.keys()

    assert sorted(after[name]["Type"] for name in added) == [
        "AWS::IAM::Policy",
        "AWS::IAM::Role",
        "AWS::Lambda::Function",
    ]
    assert not before.keys() - after.keys()


def test_it_is_the_image_of_the_tasks_with_lambdas_runtime_client_as_entry_point(
    with_tiny: Synthesis, function: dict[str, Any]
) -> None:
    task = with_tiny.resources("AWS::ECS::TaskDefinition")["SparkSmall"]

    assert function["PackageType"] == "Image"
    assert function["Code"] == {"ImageUri": task["ContainerDefinitions"][0]["Image"]}
    assert function["ImageConfig"] == {
        "EntryPoint": ["python", "-m", "awslambdaric"],
        "Command": ["longhaul.engines.aws_lambda.runner.lambda_handler"],
    }
    locked = (ROOT / "longhaul/runner" / "requirements.lock").read_text("utf-8")
    wanted = pins(ROOT / "longhaul/runner" / "requirements.txt")["awslambdaric"]
    assert f"awslambdaric=={wanted} \\\n" in locked


def test_sam_builds_the_image_with_a_user_that_can_add_the_emulator(
    with_tiny: Synthesis,
) -> None:
    (metadata,) = (
        resource["Metadata"]
        for resource in with_tiny.template["Resources"].values()
        if resource.get("Properties", {}).get("PackageType") == "Image"
    )

    # sam looks for an image's Dockerfile only where the CDK gives the property this name.
    assert metadata["aws:asset:property"] == "Code.ImageUri"
    assert metadata["aws:asset:dockerfile-path"] == "Dockerfile"
    assert metadata["aws:asset:docker-build-args"] == {"RUN_AS": "root"}
    assert metadata["SamResourceId"] == "LambdaFunction"


def test_it_has_the_settings_memory_and_disk_and_outlasts_its_jobs(
    function: dict[str, Any],
) -> None:
    assert (function["MemorySize"], function["EphemeralStorage"]) == (3538, {"Size": 6144})
    assert function["Timeout"] == 900 == MAX_TIMEOUT_S + 60
    assert function["Architectures"] == ["arm64"]
    known = RuntimeSettings.model_validate_json(function["Environment"]["Variables"][VARIABLE])
    assert known.has_tiny
    assert known.tasks.sizes["tiny"].cpu == 2048


def test_its_log_is_that_of_all_jobs(function: dict[str, Any]) -> None:
    assert function["LoggingConfig"]["LogGroup"] == "<SparkLogs>"


def test_the_claim_decides_whether_a_job_is_an_invocation(states: dict[str, Any]) -> None:
    assert states["Engine"] == {
        "Type": "Choice",
        "Choices": [{"Variable": "$.engine", "StringEquals": "lambda", "Next": "RunOnLambda"}],
        "Default": "RunOnFargate",
    }
    run = states["RunOnLambda"]
    assert run["Resource"] == "arn:<AWS::Partition>:states:::lambda:invoke"
    assert run["Parameters"] == {"FunctionName.$": "$.rights.function", "Payload.$": "$"}
    assert states["MainRights"]["Result"]["function"] == f"<{FUNCTION}.Arn>"
    assert (run["TimeoutSecondsPath"], "Retry" in run) == ("$.timeout_s", False)


def test_statelint_finds_nothing_in_the_definition(with_tiny: Synthesis) -> None:
    # FLOAT as in test_workflow.
    config = Config(ignored_problem_types=[ProblemType.FLOAT])
    assert Linter.validate(with_tiny.definition, config) == []


def test_the_machine_alone_may_invoke_it(usual: Synthesis, with_tiny: Synthesis) -> None:
    added = {
        role: with_tiny.grants(role).get("lambda:InvokeFunction", set())
        - usual.grants(role).get("lambda:InvokeFunction", set())
        for role in ("WorkflowRole", "DispatcherRole", "HeartbeatRole", "SettleRole", "SweeperRole")
    }
    assert {role: found for role, found in added.items() if found} == {
        "WorkflowRole": {f"<{FUNCTION}.Arn>"}
    }


def test_a_job_has_the_rights_of_fargate_and_may_write_its_log(with_tiny: Synthesis) -> None:
    granted = with_tiny.grants("LambdaJobRole")
    on_fargate = with_tiny.grants("SparkTaskRole")

    logs = ("logs:CreateLogStream", "logs:PutLogEvents")
    assert granted == {**on_fargate, **{action: {"<SparkLogs.Arn>"} for action in logs}}
    assert {"dynamodb:UpdateItem": TABLE, **WRITES_OBJECTS}.keys() <= on_fargate.keys()
    assert with_tiny.denials("LambdaJobRole") == with_tiny.denials("SparkTaskRole")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"stages": [{"name": "main", "size": "tiny"}]}, "needs the setting sizes.tiny"),
        ({"sizes": {"tiny": {"memory_mib": 4096}}}, "must have more memory than tiny"),
        ({"sizes": {"tiny": {"memory_mib": 10_241}}}, "less than or equal to 10240"),
        ({"sizes": {"tiny": {}}, "image_compression": "zstd"}, "needs image_compression gzip"),
    ],
)
def test_what_lambda_does_not_take_is_refused_at_synth(
    settings: dict[str, JsonValue], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        load(None, settings)
