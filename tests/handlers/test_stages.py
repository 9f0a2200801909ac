"""Pipelines of stages with the real handlers: follow-ons, joins, and crashes on the way."""

import json
from dataclasses import replace
from typing import Any

import pytest

from functions import dispatcher, settle, sweeper
from longhaul.core import transitions
from longhaul.core.lease import CommittedOutput, Lease, Owed, State, emitted_ref
from longhaul.core.settings import Stage
from longhaul.outputs.manifest import Manifest, PendingOutput
from longhaul.outputs.pending import pending_ref
from tests.builders import BUCKET, stage
from tests.events import event
from tests.handlers.life import Kill, record_of
from tests.handlers.stack import Context, Stack, deployed


def queued(name: str, **changes: Any) -> Stage:
    url = f"https://sqs.us-east-1.amazonaws.com/123456789012/Longhaul-{name}"
    return stage(
        name=name, queue_url=f"{url}-jobs", dead_letter_queue_url=f"{url}-dead-letters", **changes
    )


STAGES = (
    stage(next=("clean",)),
    queued("clean", job="flights_clean", next=("delays",), slots=20),
    queued("delays", job="daily_delays", join=True),
)


def emitting(count: int) -> dict[str, Any]:
    return {"clean": [{"inputs": {"flights": f"s3://{BUCKET}/raw/{n}.csv"}} for n in range(count)]}


def commit(stack: Stack, lease: Lease, emitted: Any = None, seal: str | None = None) -> None:
    """Commit an output without files and what was emitted, as the runner does at its end."""
    prefix = lease.places[""]
    manifest = Manifest(
        key=lease.key, run=lease.run, attempt=lease.attempt.number, files=(), rows={}
    )
    pending = PendingOutput(token=lease.id.token, prefix=prefix, uploads=(), manifest=manifest)
    stack.aws.s3.put_object(
        Bucket=BUCKET, Key=pending_ref(lease.id), Body=pending.model_dump_json().encode()
    )
    sizes = None
    if emitted is not None:
        sizes = {name: len(requests) for name, requests in emitted.items()}
        stack.parts.requests.put_emitted(emitted_ref(lease.id), emitted)
    output = CommittedOutput(lease.attempt.number, 0, 0, emitted=sizes)
    stack.parts.leases.report(transitions.commit(lease.id, replace(output, seal=seal)))


def begun(stack: Stack, context: Context, emitted: Any = None, **row: Any) -> Lease:
    """A first job that has succeeded, and what it emitted is sent."""
    first = stack.claim(**row)
    end_well(stack, first, context, emitted)
    return first


def settled(lease: Lease, context: Context, error: Any = None) -> str:
    """Settle an attempt whose task has ended well, or with this error."""
    end = {"error": error} if error else {"task": {}}
    execution = json.loads(lease.execution_input)
    return str(settle.lambda_handler({**execution, **end}, context)["outcome"])


def end_well(stack: Stack, lease: Lease, context: Context, emitted: Any = None) -> None:
    """Commit an output and what was emitted, and settle the job."""
    commit(stack, lease, emitted, seal="5ea1")
    assert settled(lease, context) == "SUCCEEDED"


def receive(stack: Stack, stage_: Stage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while batch := stack.sqs.receive_message(
        QueueUrl=stage_.queue_url,
        MaxNumberOfMessages=10,
        MessageSystemAttributeNames=["All"],
        MessageAttributeNames=["All"],
    ).get("Messages", []):
        found += batch
    return found


def jobs_in(stack: Stack, stage_: Stage) -> list[str]:
    return [json.loads(message["Body"])["job_id"] for message in receive(stack, stage_)]


def dispatched(stack: Stack, stage_: Stage, context: Context) -> list[Lease]:
    """Dispatch the messages of a stage as the mapping does; return the rows that run now.

    The mapping deletes each message that the dispatcher does not keep.
    """
    queue = stage_.queue_url.rpartition("/")[2]
    keys = []
    for message in receive(stack, stage_):
        record = record_of(message, queue)
        kept = dispatcher.lambda_handler({"Records": [record]}, context)["batchItemFailures"]
        if not kept:
            stack.sqs.delete_message(
                QueueUrl=stage_.queue_url, ReceiptHandle=message["ReceiptHandle"]
            )
        keys.append(f"{stage_.name}#{json.loads(message['Body'])['job_id']}")
    rows = stack.parts.leases.load_many(keys)
    found = (rows.get(key) for key in dict.fromkeys(keys))
    return [row for row in found if row is not None and row.state is State.RUNNING]


def test_what_a_job_emitted_for_a_stage_that_was_taken_out_is_dead_lettered(
    context: Context,
) -> None:
    with deployed(check=True, stages=STAGES) as stack:
        lease = stack.claim()
        commit(stack, lease, emitting(2))
        stack.redeploy(next=(), without=("clean", "delays"))

        assert settled(lease, context) == "SUCCEEDED"

        letters = stack.dead_letters()
        assert [why["class"] for _, why in letters] == ["unsendable"] * 2
        assert "stage clean was taken out" in letters[0][1]["reason"]
        assert "raw/0.csv" in letters[0][0]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(10))
def test_settle_that_dies_at_any_call_is_finished_and_each_follow_on_runs_once(
    pipeline: Stack, context: Context, at: int, *, after: bool
) -> None:
    lease = pipeline.claim()
    commit(pipeline, lease, emitting(12))
    with Kill(pipeline.aws.gate, at + 1, after=after):
        settled(lease, context)
    if not pipeline.row().is_finished:
        assert sum(pipeline.messages()) == 1 or pipeline.row().owed == (Owed.DELETE,)
    settled(lease, context)
    sweeper.lambda_handler(event("sweeper", "schedule"), context)
    assert pipeline.row().is_finished
    assert pipeline.messages() == (0, 0)
    assert len(dispatched(pipeline, STAGES[1], context)) == 12
