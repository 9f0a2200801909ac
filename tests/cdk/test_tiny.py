"""The stack with the size tiny: a Lambda function made of the jobs' image."""

import pytest
from pydantic import JsonValue

from longhaul.config.errors import SettingsError
from longhaul.engines.aws_lambda.ends import MAX_TIMEOUT_S
from tests.cdk.synthesis import Synthesis
from tests.projects import checked


def test_it_outlasts_its_jobs(with_tiny: Synthesis) -> None:
    function = with_tiny.resources("AWS::Lambda::Function")["LambdaFunction"]
    assert function["Timeout"] == 900 == MAX_TIMEOUT_S + 60


def test_a_job_has_the_rights_of_fargate_and_may_write_its_log(with_tiny: Synthesis) -> None:
    granted = with_tiny.grants("LambdaJobRole")
    on_fargate = with_tiny.grants("SparkTaskRole")

    logs = ("logs:CreateLogStream", "logs:PutLogEvents")
    assert granted == {**on_fargate, **{action: {"<SparkLogs.Arn>"} for action in logs}}
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
