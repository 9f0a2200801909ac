"""Whatever a sender writes into a message, it ends as a claim, a refusal or a release.

`make fuzz N=80000` draws more messages.
"""

import json
import os
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings

from tests.builders import BODY
from tests.handlers.any_message import ATTRIBUTES, BODIES
from tests.handlers.conftest import Log
from tests.handlers.life import Life
from tests.handlers.stack import Stack, deployed

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "100"))
NUMBERS = count()


@pytest.fixture(scope="module", params=["free slots", "no free slot"])
def life(request: pytest.FixtureRequest, output: Path) -> Iterator[Life]:
    free = request.param == "free slots"
    with deployed(slots=10_000 if free else 1) as stack:
        life = Life(stack, output)
        if not free:
            life.submit("takes-the-slot")
        yield life


def records_of(stack: Stack, body: str, attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The record of a message that is in the queue, with what SQS might have carried."""
    sent = stack.sqs.send_message(QueueUrl=stack.jobs_url, MessageBody=str(next(NUMBERS)))
    (record,) = (
        each for each in Life(stack, Path()).receive() if each["messageId"] == sent["MessageId"]
    )
    return [{**record, "body": body, "messageAttributes": dict(attributes)}]


def ended_as(life: Life, body: str, attributes: Mapping[str, Any]) -> str:
    """What became of the message."""
    stack = life.stack
    before = len(stack.sqs.queues[stack.dead_letters_url].messages)
    (record,) = records_of(stack, body, attributes)
    stack.aws.gate.calls.clear()
    kept = life.dispatch([record])
    made = [call.operation for call in stack.aws.gate.calls]
    refused = len(stack.sqs.queues[stack.dead_letters_url].messages) - before
    if refused:
        assert (kept, refused) == ([], 1)
        return "refused"
    if not kept:
        return "duplicate"
    return (
        "claimed"
        if "StartExecution" in made
        else "released"
        if {"ChangeMessageVisibility", "ChangeMessageVisibilityBatch"} & set(made)
        else "left without a word"
    )


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=BODIES, attributes=ATTRIBUTES)
@example(body=json.dumps(BODY), attributes={})
def test_any_message_ends_as_a_claim_a_refusal_or_a_release(
    life: Life, log: Log, body: str, attributes: dict[str, Any]
) -> None:
    log.clear()
    end = ended_as(life, body, attributes)
    event(end)
    # An exception that kept a message in the queue is one.
    assert [line for line in log if line["level"] == "ERROR"] == []
    assert end != "left without a word"
