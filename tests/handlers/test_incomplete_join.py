"""A join whose first outputs expired before its last member arrived."""

import json
from collections.abc import Iterator

import pytest

from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.lease import State
from longhaul.domain.request import read_request
from tests.builders import BUCKET
from tests.handlers.conftest import Context, Stack, deployed
from tests.handlers.test_stages import STAGES, commit, dispatched, emitting, jobs_in, settled

CLEAN, DELAYS = STAGES[1:]


@pytest.fixture
def pipeline() -> Iterator[Stack]:
    with deployed(check=True, stages=STAGES) as stack:
        yield stack


def test_a_join_with_an_expired_output_is_dead_lettered_and_never_starts(
    pipeline: Stack, context: Context
) -> None:
    # By a version whose joins close the innermost fan-out
    first = pipeline.claim(opens=(), counts=False)
    commit(pipeline, first, emitting(3))
    settled(first, context)
    one, two, three = dispatched(pipeline, CLEAN, context)
    for row in (one, two):
        commit(pipeline, row)
        settled(row, context)
    table = pipeline.settings.leases_table
    items = [
        row.item
        for row in pipeline.aws.dynamodb.tables[table].rows.values()
        if row.item is not None
    ]
    (arrived,) = (each for each in items if each["item"]["S"] == "arrived")
    (place,) = (each for each in items if each["item"]["S"] == "place#00001")
    assert int(arrived["ttl"]["N"]) > int(place["ttl"]["N"]) + 365 * 86_400
    key = {name: place[name] for name in ("key", "item")}
    pipeline.aws.dynamodb.delete_item(TableName=table, Key=key)  # as TTL does
    commit(pipeline, three)
    assert settled(three, context) == "SUCCEEDED"
    assert jobs_in(pipeline, DELAYS) == []
    row = pipeline.parts.leases.load(three.key)
    assert row is not None
    assert (row.state, row.owed) == (State.SUCCEEDED, ())
    (letter,) = pipeline.sqs.receive_message(
        QueueUrl=DELAYS.dead_letter_queue_url, MessageAttributeNames=["All"]
    )["Messages"]
    why = json.loads(letter["MessageAttributes"]["longhaul"]["StringValue"])
    body = json.loads(letter["Body"])
    assert why["class"] == "incomplete_join"
    assert why["key"] == f"delays#{body['job_id']}"
    assert "(clean_00001)" in why["reason"]
    assert body["inputs"] == {"clean_00001": None}
    # Sent as it is, it is refused: the input has to be filled in.
    with pytest.raises(InvalidRequestError, match=r"inputs\.clean_00001"):
        read_request(letter["Body"])
    filled = json.dumps({**body, "inputs": {"clean_00001": f"s3://{BUCKET}/b/"}})
    pipeline.sqs.send_message(QueueUrl=DELAYS.queue_url, MessageBody=filled)
    (join,) = dispatched(pipeline, DELAYS, context)
    assert join.key == why["key"]
