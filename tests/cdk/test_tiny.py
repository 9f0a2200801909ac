"""The stack with the size tiny: a Lambda function made of the jobs' image."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from longhaul.config.errors import SettingsError
from longhaul.core.settings import VARIABLE, RuntimeSettings
from longhaul.engines.aws_lambda.ends import MAX_TIMEOUT_S
from tests.cdk.synthesis import Synthesis
from tests.cdk.test_grants import TABLE, WRITES_OBJECTS
from tests.cdk.test_locking import pins
from tests.layers import ROOT
from tests.projects import checked

FUNCTION = "LambdaFunction"


@pytest.fixture
def function(with_tiny: Synthesis) -> dict[str, Any]:
    return with_tiny.resources("AWS::Lambda::Function")[FUNCTION]


def test_without_the_setting_nothing_of_it_is_in_the_template(usual: Synthesis) -> None:
    assert "tiny" not in json.dumps(usual.template)


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


def test_it_has_the_settings_memory_and_disk_and_outlasts_its_jobs(
    function: dict[str, Any],
) -> None:
    assert (function["MemorySize"], function["EphemeralStorage"]) == (3538, {"Size": 6144})
    assert function["Timeout"] == 900 == MAX_TIMEOUT_S + 60
    assert function["Architectures"] == ["arm64"]
    known = RuntimeSettings.model_validate_json(function["Environment"]["Variables"][VARIABLE])
    assert known.has_tiny
    assert known.tasks.sizes["tiny"].cpu == 2048


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
        (
            {"stages": [{"name": "main", "size": "tiny"}]},
            "its settings have no sizes.tiny",
        ),
        ({"sizes": {"tiny": {"memory_mib": 4096}}}, "must have more memory than tiny"),
        ({"sizes": {"tiny": {"memory_mib": 10_241}}}, "less than or equal to 10240"),
        ({"sizes": {"tiny": {}}, "image_compression": "zstd"}, "needs image_compression gzip"),
    ],
)
def test_what_lambda_does_not_take_is_refused_at_synth(
    settings: dict[str, JsonValue], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        checked(settings)
