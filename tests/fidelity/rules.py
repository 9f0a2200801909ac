"""All rules, by service, and the engines that are asked."""

from collections.abc import Mapping, Sequence

from tests.fidelity import (
    dynamodb,
    dynamodb_expressions,
    ecs,
    glue,
    s3,
    sqs,
    sqs_contents,
    sqs_redrive,
    states,
    stepfunctions,
)
from tests.fidelity.rule import Rule

RULES: Mapping[str, Sequence[Rule]] = {
    "SQS": [*sqs.RULES, *sqs_contents.RULES, *sqs_redrive.RULES],
    "S3": s3.RULES,
    "DynamoDB": [*dynamodb.RULES, *dynamodb_expressions.RULES],
    "Glue": glue.RULES,
    "ECS": ecs.RULES,
    "Step Functions": [*stepfunctions.RULES, *states.RULES],
}
ENGINES = ("fake", "stock", "embedded", "oracle")
