"""A job's code writes what its role lets it into its own row: it reaches nothing of another stage.

A function takes what it acts on from the attempt's id, and places from the claim.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from functions import settle
from longhaul.core.lease import Lease
from longhaul.outputs.manifest import Manifest, PendingOutput
from longhaul.outputs.pending import pending_ref
from tests.builders import BUCKET, body, stage
from tests.handlers.life import Life
from tests.handlers.stack import Context, Stack, deployed
from tests.handlers.test_stages import commit, dispatched, queued, receive, settled

NOTICES = "https://sqs.us-east-1.amazonaws.com/123456789012/notices"
MAIN = stage(next=("clean",), notify="arn:aws:sqs:us-east-1:123456789012:notices", openlineage=True)
BANK = queued("bank", job="sql", next=("clean",))
CLEAN = queued("clean", job="flights_clean", slots=20)
THEIRS = f"s3://{BUCKET}/bank/ledger/"


@pytest.fixture
def stack() -> Iterator[Stack]:
    with deployed(stages=(MAIN, BANK, CLEAN)) as stack:
        stack.sqs.create_queue(QueueName="notices")
        yield stack


@pytest.fixture
def theirs(stack: Stack, context: Context) -> Lease:
    """A running job of another stage."""
    stack.sqs.send_message(
        QueueUrl=BANK.queue_url, MessageBody=body(job_id="payroll", output=THEIRS, mode="append")
    )
    (row,) = dispatched(stack, BANK, context)
    return row


@pytest.fixture
def mine(stack: Stack, context: Context, tmp_path: Path) -> Lease:
    life = Life(stack, tmp_path, context)
    life.submit("evil")
    return life.row("evil")


def forge(stack: Stack, row: Lease, attribute: str, value: str) -> None:
    """Set one attribute of the row, as the task's role may."""
    stack.aws.dynamodb.update_item(
        TableName=stack.settings.leases_table,
        Key={"key": {"S": row.key}, "item": {"S": "lease"}},
        UpdateExpression="SET #a = :v",
        ExpressionAttributeNames={"#a": attribute},
        ExpressionAttributeValues={":v": {"S": value}},
    )


def test_the_task_of_another_stage_is_not_stopped(
    stack: Stack, context: Context, theirs: Lease, mine: Lease
) -> None:
    victim = stack.start_task(theirs)
    forge(stack, mine, "task_arn", victim.arn)

    # As Step Functions tells of a task that exits with the code of a lost lease.
    ended = {
        "TaskArn": f"{victim.arn}0",
        "StopCode": "EssentialContainerExited",
        "Containers": [{"Name": "job", "ExitCode": 73}],
    }
    error = {"Error": "States.TaskFailed", "Cause": json.dumps(ended)}
    settle.lambda_handler({**json.loads(mine.execution_input), "error": error}, context)

    (task,) = stack.aws.ecs.describe_tasks(cluster="Longhaul", tasks=[victim.arn])["tasks"]
    assert task["desiredStatus"] == "RUNNING"


def test_what_another_stages_job_emitted_is_not_sent_again(
    stack: Stack, context: Context, theirs: Lease, mine: Lease
) -> None:
    secret = {"inputs": {"flights": f"s3://{BUCKET}/raw/x.csv"}, "params": {"token": "theirs"}}
    commit(stack, theirs, {"clean": [{**secret, "output": THEIRS}]}, seal="b" * 32)
    settled(theirs, context)
    assert len(receive(stack, CLEAN)) == 1
    commit(stack, mine, seal="a" * 32)
    emitted = f"longhaul/emitted/bank!payroll/{theirs.run}-1.json"
    forged = {"attempt": 1, "files": 0, "size_bytes": 0, "emitted": {"clean": 1}, "seal": "a" * 32}
    forge(stack, mine, "output", json.dumps({**forged, "emitted_ref": emitted}))

    with pytest.raises(Exception, match="NoSuchKey"):
        settled(mine, context)

    assert receive(stack, CLEAN) == []


def test_the_list_of_another_stages_attempt_is_not_published(
    stack: Stack, context: Context, theirs: Lease, mine: Lease
) -> None:
    manifest = Manifest(key=theirs.key, run=theirs.run, attempt=1, files=(), rows={".": 42})
    pending = PendingOutput(
        token=theirs.id.token, prefix=THEIRS, mode="append", uploads=(), manifest=manifest
    )
    listed = pending.model_dump_json().encode()
    stack.aws.s3.put_object(Bucket=BUCKET, Key=pending_ref(theirs.id), Body=listed)
    forged = {"attempt": 1, "pending_ref": pending_ref(theirs.id), "prefix": THEIRS}
    forge(stack, mine, "output", json.dumps({**forged, "files": 0, "size_bytes": 0}))

    settled(mine, context)

    assert "bank/ledger/_SUCCESS" not in stack.aws.s3.buckets[BUCKET].objects


def test_no_notice_and_no_follow_on_names_a_place_that_the_request_does_not(
    stack: Stack, context: Context, mine: Lease
) -> None:
    commit(stack, mine, seal="a" * 32)
    beside = {"name": "x", "prefix": "s3://others/secret/", "files": 1, "size_bytes": 1}
    forged = {"attempt": 1, "prefix": THEIRS, "files": 7, "size_bytes": 7, "beside": [beside]}
    forge(stack, mine, "output", json.dumps({**forged, "seal": "a" * 32}))

    settled(mine, context)

    (follow_on,) = receive(stack, CLEAN)
    assert list(json.loads(follow_on["Body"])["inputs"].values()) == [mine.places[""]]
    told = receive(stack, MAIN.model_copy(update={"queue_url": NOTICES}))
    assert len(told) == 3  # the end, and the run's begin and end for OpenLineage
    assert not any("ledger" in each["Body"] or "others" in each["Body"] for each in told)
