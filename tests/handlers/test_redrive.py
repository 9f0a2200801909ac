"""Dead letters that StartMessageMoveTask moves back run under their keys.

A copy of a message keeps the message's group, the tenant of a fair queue.
"""

from typing import Any

import pytest

from longhaul.core.lease import State
from tests import builders
from tests.handlers.life import JOB, Life


def dead(life: Life) -> None:
    life.running(max_attempts=1)
    assert life.settle(life.row(), "exit-1") == "DEAD"


def redrive(life: Life, **destination: str) -> dict[str, Any]:
    source = arn(life, life.stack.dead_letters_url)
    life.stack.sqs.start_message_move_task(SourceArn=source, **destination)
    (task,) = life.stack.sqs.list_message_move_tasks(SourceArn=source)["Results"]
    return dict(task)


def arn(life: Life, url: str) -> str:
    return life.stack.sqs.queues[url].arn


def test_redriven_job_starts_a_new_run_under_its_key_without_failures(life: Life) -> None:
    dead(life)
    before = life.row()
    moved = redrive(life, DestinationArn=arn(life, life.stack.jobs_url))
    assert moved["ApproximateNumberOfMessagesMoved"] == 1
    life.deliver()
    row = life.row()
    assert (row.state, row.attempt.number, row.failures, row.run > before.run) == (
        State.RUNNING,
        2,
        0,
        True,
    )
    assert row.receive.message_id != before.receive.message_id
    life.succeed(row)
    assert life.stack.messages() == (0, 0)


def groups(life: Life, url: str) -> list[str | None]:
    return [message.group_id for message in life.stack.sqs.queues[url].messages.values()]


@pytest.mark.parametrize("by", ["renewal", "sweeper", "dead letter"])
def test_copy_of_a_message_keeps_its_group(life: Life, by: str) -> None:
    body = builders.body(job_id=JOB)
    life.stack.sqs.send_message(
        QueueUrl=life.stack.jobs_url, MessageBody=body, MessageGroupId="tenant-1"
    )
    records = life.receive()
    life.dispatch(records)
    url = life.stack.jobs_url
    match by:
        case "renewal":
            records[0]["attributes"]["ApproximateReceiveCount"] = "900"
            assert life.dispatch(records) == []
        case "sweeper":
            life.settle(life.row(), "exit-1")
            life.stack.sqs.purge_queue(QueueUrl=url)
            life.stack.aws.clock.advance(7 * 3600)
            assert life.sweep()["renewed"] == 1
        case _:
            life.settle(life.row(), "exit-65-permanent")
            url = life.stack.dead_letters_url
    assert groups(life, url) == ["tenant-1"]
