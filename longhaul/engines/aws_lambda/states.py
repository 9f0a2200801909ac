"""A job on Lambda: one invocation. Imports no CDK."""

from longhaul.engines.aws_lambda.ends import LAMBDA
from longhaul.engines.states import JobStates, run_job


def lambda_states(function_arn: str, partition: str) -> JobStates:
    """The states of the engine."""
    parameters = {"FunctionName": function_arn, "Payload.$": "$"}
    resource = f"arn:{partition}:states:::lambda:invoke"
    return JobStates(
        engine=LAMBDA.name,
        start="RunOnLambda",
        states={"RunOnLambda": run_job(resource, parameters)},
    )
