"""Rules of EventBridge, as a team would add them to a stack."""

import json
from collections.abc import Mapping
from typing import Any

from tests.e2e.conftest import Stack


def queue_of_rule(stack: Stack, name: str, pattern: Mapping[str, Any]) -> str:
    """The URL of a new queue that gets the stack's events of that pattern."""
    sqs, events = stack.client("sqs"), stack.client("events")
    # Without this policy AWS lets no rule send, and neither does the embedded AWS.
    open_to_rules = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": "*",
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [open_to_rules]})
    url = sqs.create_queue(QueueName=name, Attributes={"Policy": policy})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    events.put_rule(Name=name, EventPattern=json.dumps({"source": ["longhaul"], **pattern}))
    events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": arn["QueueArn"]}])
    return str(url)
