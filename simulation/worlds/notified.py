"""Who is told that a run has ended: a topic, a queue or a bus that is not the stack's."""

import json
from collections.abc import Mapping
from typing import Any

from simulation.aws.cloud import FakeAws
from simulation.aws.service import ACCOUNT, REGION, Call

TARGETS: Mapping[str, str] = {
    "sns": f"arn:aws:sns:{REGION}:{ACCOUNT}:ended",
    "sqs": f"arn:aws:sqs:{REGION}:{ACCOUNT}:ended",
    "events": f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/ended",
}
"""The `notify` of a world's stages, by the service that its plan names."""


def create(aws: FakeAws, service: str) -> None:
    """Make the target; a bus is there anyway."""
    if service == "sns":
        aws.sns.create_topic(Name="ended")
    elif service == "sqs":
        aws.sqs.create_queue(QueueName="ended")


def told_by(call: Call) -> dict[str, Any] | None:
    """The event that a call has sent; None for any other call."""
    arguments = call.arguments
    match call.service, call.operation:
        case "sns", "Publish":
            text = arguments["Message"]
        case "events", "PutEvents":
            text = arguments["Entries"][0]["Detail"]
        case "sqs", "SendMessage" if arguments["QueueUrl"].endswith("/ended"):
            text = arguments["MessageBody"]
        case _:
            return None
    event: dict[str, Any] = json.loads(text)
    return event
