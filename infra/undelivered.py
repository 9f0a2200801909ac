"""Where EventBridge leaves what it could not deliver."""

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.nag import acknowledge


def undelivered_queue(scope: Construct, of: str) -> sqs.Queue:
    """`of`: whose dead-letter queue it is, in words."""
    queue = sqs.Queue(
        scope,
        "Undelivered",
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=Duration.days(14),
    )
    acknowledge(queue, "SQS3", f"It is a dead-letter queue: that of {of}.")
    return queue
