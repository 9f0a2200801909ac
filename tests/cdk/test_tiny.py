"""The stack with the size tiny: a Lambda function made of the jobs' image."""

from longhaul.engines.aws_lambda.ends import MAX_TIMEOUT_S
from tests.cdk.synthesis import Synthesis


def test_it_outlasts_its_jobs(with_tiny: Synthesis) -> None:
    function = with_tiny.resources("AWS::Lambda::Function")["LambdaFunction"]
    assert function["Timeout"] == 900 == MAX_TIMEOUT_S + 60


def test_a_job_has_the_rights_of_fargate_and_may_write_its_log(with_tiny: Synthesis) -> None:
    granted = with_tiny.grants("LambdaJobRole")
    on_fargate = with_tiny.grants("SparkTaskRole")

    logs = ("logs:CreateLogStream", "logs:PutLogEvents")
    assert granted == {**on_fargate, **{action: {"<SparkLogs.Arn>"} for action in logs}}
    assert with_tiny.denials("LambdaJobRole") == with_tiny.denials("SparkTaskRole")
