"""A job on Lambda: one invocation. Imports no CDK."""

from collections.abc import Mapping

from longhaul.engines.aws_lambda.ends import LAMBDA
from longhaul.engines.states import JobStates, run_job


def lambda_states(functions: Mapping[str, str], partition: str) -> JobStates:
    """The states of the engine; `functions` are the ARNs of those that run jobs, by stage."""
    parameters = {"FunctionName.$": "$.rights.function", "Payload.$": "$"}
    resource = f"arn:{partition}:states:::lambda:invoke"
    return JobStates(
        engine=LAMBDA.name,
        start="RunOnLambda",
        states={"RunOnLambda": run_job(resource, parameters)},
        rights={stage: {"function": arn} for stage, arn in functions.items()},
    )
