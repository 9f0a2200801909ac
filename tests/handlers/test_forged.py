"""What a sender or a job forges leads nowhere."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions import settle
from longhaul.core import transitions
from longhaul.core.descent import Group, Lineage, child_id
from longhaul.core.lease import CommittedOutput, Lease, RecordedResult, State, joined_ref
from longhaul.outputs.manifest import Manifest, PendingOutput
from longhaul.outputs.pending import pending_ref
from longhaul.pipelines.follow_ons import MAX_FAMILY
from tests.builders import BUCKET, body, stage
from tests.handlers.life import Life
from tests.handlers.stack import Context, Stack, deployed
from tests.handlers.test_stages import (
    STAGES,
    commit,
    dispatched,
    emitting,
    jobs_in,
    queued,
    receive,
    settled,
)

# A sender writes a lineage: it counts only if the parent's row proves it.


MAIN, CLEAN, DELAYS = STAGES


def succeeded(pipeline: Stack, context: Context) -> Lease:
    """A job that has succeeded and emitted three."""
    row = pipeline.claim()
    commit(pipeline, row, emitting(3), seal="5ea1")
    settled(row, context)
    return row


@pytest.fixture
def parent(pipeline: Stack, context: Context) -> Lease:
    """A job that has succeeded and emitted three; the three run, and one has succeeded."""
    row = succeeded(pipeline, context)
    first, _, _ = dispatched(pipeline, CLEAN, context)
    commit(pipeline, first)
    settled(first, context)
    return row


def member_id(parent: Lease, n: int, stage: str = "clean") -> str:
    return child_id(parent.root, stage, parent.key, n)


def lineage(parent: Lease, **group: Any) -> dict[str, Any]:
    place = {"of": parent.key, "run": parent.run, "n": 0, "size": 3, "opens": parent.opens}
    of = {"root": parent.key, "parent": parent.key, "run": parent.run}
    return {**of, "groups": [place | group]}


def send(stack: Stack, url: str, **request: Any) -> None:
    stack.sqs.send_message(QueueUrl=url, MessageBody=body(**request))


def is_refused(stack: Stack, context: Context, stage: Any = CLEAN) -> bool:
    assert dispatched(stack, stage, context) == []
    ((_, why),) = stack.dead_letters(stage)
    return why["class"] == "invalid_request" and "lineage" in why["reason"]


@pytest.mark.parametrize(
    "group",
    [{"size": 1}, {"n": 5, "size": 6}, {"run": 7}, {"of": "main#another"}, {"opens": None}],
    ids=["size of one", "place beyond the group", "another run", "another group", "no join"],
)
def test_a_forged_member_never_starts(
    pipeline: Stack, parent: Lease, context: Context, group: dict[str, Any]
) -> None:
    forged = lineage(parent, **group)
    forged_id = member_id(parent, group.get("n", 7))
    send(pipeline, CLEAN.queue_url, job_id=forged_id, lineage=forged)
    assert is_refused(pipeline, context)
    assert jobs_in(pipeline, DELAYS) == []


ELSEWHERE = queued("elsewhere")


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_job_that_forges_what_it_emitted_leads_to_no_other_stage_than_its_own_leads_to(
    context: Context, output: Path, attempts: int
) -> None:
    with deployed(check=True, stages=(*STAGES, ELSEWHERE)) as stack:
        life = Life(stack, output, context)
        life.submit("forges")
        for _ in range(attempts - 1):
            life.settle(life.row("forges"), "exit-1")
            life.deliver(after_s=3_600)
        parent = life.row("forges")
        forged = {"elsewhere": [{"job": "sql", "output": f"s3://{BUCKET}/theirs/"}]}
        commit(stack, parent, forged, seal="5ea1")
        assert settled(parent, context) == "SUCCEEDED"
        assert is_refused(stack, context, ELSEWHERE)


@pytest.mark.parametrize(("stage", "n"), [(CLEAN, 0), (DELAYS, "join")], ids=["member", "join"])
def test_the_id_of_a_job_that_is_still_to_come_is_kept_for_it(
    pipeline: Stack, context: Context, stage: Any, n: int | str
) -> None:
    parent = pipeline.claim()
    kept = child_id(parent.root, stage.name, parent.key, n)

    send(pipeline, stage.queue_url, job_id=kept)

    assert is_refused(pipeline, context, stage)
    commit(pipeline, parent, emitting(3), seal="5ea1")
    settled(parent, context)
    assert len(dispatched(pipeline, CLEAN, context)) == 3


def test_a_forged_join_never_starts(pipeline: Stack, parent: Lease, context: Context) -> None:
    join_id = child_id(parent.root, "delays", parent.key, "join")
    forged = {"root": parent.key, "parent": parent.key}
    inputs = {"clean_00000": f"s3://{BUCKET}/raw/forged.csv"}
    send(pipeline, DELAYS.queue_url, job_id=join_id, lineage=forged, inputs=inputs)
    assert is_refused(pipeline, context, DELAYS)
    # With the right reference: the members have not arrived.
    forged |= {"inputs_ref": joined_ref(f"delays#{join_id}", 0)}
    send(pipeline, DELAYS.queue_url, job_id=join_id, lineage=forged, inputs=inputs)
    assert is_refused(pipeline, context, DELAYS)


def test_a_redriven_child_keeps_its_place_when_its_parent_has_expired(
    pipeline: Stack, parent: Lease, context: Context
) -> None:
    key = f"clean#{member_id(parent, 1)}"
    child = pipeline.load(key)
    sent = json.loads(pipeline.parts.requests.get(child.request_ref).body)
    settle_badly(pipeline, child, context)
    pipeline.aws.clock.advance(10)
    pipeline.aws.dynamodb.expire(pipeline.settings.leases_table, (parent.key, "lease"))
    pipeline.sqs.send_message(QueueUrl=CLEAN.queue_url, MessageBody=json.dumps(sent))
    (again,) = dispatched(pipeline, CLEAN, context)
    assert (again.key, again.lineage) == (key, child.lineage)


def settle_badly(stack: Stack, row: Lease, context: Context) -> None:
    stack.parts.leases.report(
        transitions.record_result(
            row.id, RecordedResult(row.attempt.number, "permanent", "no such column")
        )
    )
    assert settled(row, context) == "DEAD"


def test_fan_outs_that_lead_to_too_many_jobs_stop_at_the_claim(
    pipeline: Stack, context: Context
) -> None:
    """Where a job's code goes around `emit`."""
    outer = tuple(
        Group(of="main#x", run=1, n=0, size=size) for size in (5_000, MAX_FAMILY // 5_000)
    )
    parent = pipeline.claim(lineage=Lineage(root="main#x", parent="main#x", groups=outer))
    commit(pipeline, parent, emitting(2))
    settled(parent, context)
    assert dispatched(pipeline, CLEAN, context) == []
    letters = [why for _, why in pipeline.dead_letters(CLEAN)]
    assert [why["class"] for why in letters] == ["invalid_request"] * 2
    assert "may lead to 200,000 jobs; at most 100,000" in letters[0]["reason"]


# A job's code commits an output at another place than its request names.


THEIRS = f"s3://{BUCKET}/theirs/"


def test_a_function_publishes_nothing_where_the_request_does_not_let_it_go(
    stack: Stack, context: Context, output: Path
) -> None:
    life = Life(stack, output, context)
    row = life.running("forges")
    manifest = Manifest(key=row.key, run=row.run, attempt=row.attempt.number, files=(), rows={})
    pending = PendingOutput(token=row.id.token, prefix=THEIRS, uploads=(), manifest=manifest)
    ref = pending_ref(row.id)
    stack.aws.s3.put_object(Bucket=BUCKET, Key=ref, Body=pending.model_dump_json().encode())
    # The row says the place of the request, and the list another.
    committed = CommittedOutput(row.attempt.number, 0, 0, prefix=f"s3://{BUCKET}/out/forges/")
    stack.parts.leases.report(transitions.commit(row.id, committed))
    life.settle(row)
    for _ in range(4):
        life.sweep(after_s=1_900)
        life.deliver()

    assert "theirs/_SUCCESS" not in stack.aws.s3.buckets[BUCKET].objects
    # The commit is void: another attempt began.
    assert (life.row("forges").state, life.row("forges").attempt.number) == (State.RUNNING, 2)


# A job's code writes what its role lets it into its own row: it reaches nothing of another stage.
# A function takes what it acts on from the attempt's id, and places from the claim.


NOTICES = "https://sqs.us-east-1.amazonaws.com/123456789012/notices"
TELLS = stage(
    next=("clean",), notify="arn:aws:sqs:us-east-1:123456789012:notices", openlineage=True
)
BANK = queued("bank", job="sql", next=("clean",))
CLEANS = queued("clean", job="flights_clean", slots=20)
THEIRS = f"s3://{BUCKET}/bank/ledger/"


@pytest.fixture
def shared() -> Iterator[Stack]:
    """A stack in which another stage has jobs, too."""
    with deployed(stages=(TELLS, BANK, CLEANS)) as made:
        made.sqs.create_queue(QueueName="notices")
        yield made


@pytest.fixture
def theirs(shared: Stack, context: Context) -> Lease:
    """A running job of another stage."""
    shared.sqs.send_message(
        QueueUrl=BANK.queue_url, MessageBody=body(job_id="payroll", output=THEIRS, mode="append")
    )
    (row,) = dispatched(shared, BANK, context)
    return row


@pytest.fixture
def mine(shared: Stack, context: Context, tmp_path: Path) -> Lease:
    life = Life(shared, tmp_path, context)
    life.submit("evil")
    return life.row("evil")


def forge(shared: Stack, row: Lease, attribute: str, value: str) -> None:
    """Set one attribute of the row, as the task's role may."""
    shared.aws.dynamodb.update_item(
        TableName=shared.settings.leases_table,
        Key={"key": {"S": row.key}, "item": {"S": "lease"}},
        UpdateExpression="SET #a = :v",
        ExpressionAttributeNames={"#a": attribute},
        ExpressionAttributeValues={":v": {"S": value}},
    )


def test_the_task_of_another_stage_is_not_stopped(
    shared: Stack, context: Context, theirs: Lease, mine: Lease
) -> None:
    victim = shared.start_task(theirs)
    forge(shared, mine, "task_arn", victim.arn)

    # As Step Functions tells of a task that exits with the code of a lost lease.
    ended = {
        "TaskArn": f"{victim.arn}0",
        "StopCode": "EssentialContainerExited",
        "Containers": [{"Name": "job", "ExitCode": 73}],
    }
    error = {"Error": "States.TaskFailed", "Cause": json.dumps(ended)}
    settle.lambda_handler({**json.loads(mine.execution_input), "error": error}, context)

    (task,) = shared.aws.ecs.describe_tasks(cluster="Longhaul", tasks=[victim.arn])["tasks"]
    assert task["desiredStatus"] == "RUNNING"


def test_what_another_stages_job_emitted_is_not_sent_again(
    shared: Stack, context: Context, theirs: Lease, mine: Lease
) -> None:
    secret = {"inputs": {"flights": f"s3://{BUCKET}/raw/x.csv"}, "params": {"token": "theirs"}}
    commit(shared, theirs, {"clean": [{**secret, "output": THEIRS}]}, seal="b" * 32)
    settled(theirs, context)
    assert len(receive(shared, CLEANS)) == 1
    commit(shared, mine, seal="a" * 32)
    emitted = f"longhaul/emitted/bank!payroll/{theirs.run}-1.json"
    forged = {"attempt": 1, "files": 0, "size_bytes": 0, "emitted": {"clean": 1}, "seal": "a" * 32}
    forge(shared, mine, "output", json.dumps({**forged, "emitted_ref": emitted}))

    with pytest.raises(Exception, match="NoSuchKey"):
        settled(mine, context)

    assert receive(shared, CLEANS) == []


def test_the_list_of_another_stages_attempt_is_not_published(
    shared: Stack, context: Context, theirs: Lease, mine: Lease
) -> None:
    manifest = Manifest(key=theirs.key, run=theirs.run, attempt=1, files=(), rows={".": 42})
    pending = PendingOutput(
        token=theirs.id.token, prefix=THEIRS, mode="append", uploads=(), manifest=manifest
    )
    listed = pending.model_dump_json().encode()
    shared.aws.s3.put_object(Bucket=BUCKET, Key=pending_ref(theirs.id), Body=listed)
    forged = {"attempt": 1, "pending_ref": pending_ref(theirs.id), "prefix": THEIRS}
    forge(shared, mine, "output", json.dumps({**forged, "files": 0, "size_bytes": 0}))

    settled(mine, context)

    assert "bank/ledger/_SUCCESS" not in shared.aws.s3.buckets[BUCKET].objects


def test_no_notice_and_no_follow_on_names_a_place_that_the_request_does_not(
    shared: Stack, context: Context, mine: Lease
) -> None:
    commit(shared, mine, seal="a" * 32)
    beside = {"name": "x", "prefix": "s3://others/secret/", "files": 1, "size_bytes": 1}
    forged = {"attempt": 1, "prefix": THEIRS, "files": 7, "size_bytes": 7, "beside": [beside]}
    forge(shared, mine, "output", json.dumps({**forged, "seal": "a" * 32}))

    settled(mine, context)

    (follow_on,) = receive(shared, CLEANS)
    assert list(json.loads(follow_on["Body"])["inputs"].values()) == [mine.places[""]]
    told = receive(shared, TELLS.model_copy(update={"queue_url": NOTICES}))
    assert len(told) == 3  # the end, and the run's begin and end for OpenLineage
    assert not any("ledger" in each["Body"] or "others" in each["Body"] for each in told)
