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


def test_redrive_without_a_destination_moves_nothing(life: Life) -> None:
    dead(life)
    moved = redrive(life)
    assert (moved["Status"], moved["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    assert len(life.stack.dead_letters()) == 1


def test_job_without_a_job_id_is_redriven_under_its_first_key(life: Life) -> None:
    sent = life.stack.sqs.send_message(
        QueueUrl=life.stack.jobs_url, MessageBody=builders.body(max_attempts=1)
    )
    job_id = sent["MessageId"]
    life.deliver()
    life.settle(life.row(job_id), "exit-1")
    redrive(life, DestinationArn=arn(life, life.stack.jobs_url))
    life.deliver()
    assert (life.row(job_id).state, life.row(job_id).attempt.number, len(life.rows())) == (
        State.RUNNING,
        2,
        1,
    )


def test_second_dead_letter_explains_only_the_second_end(life: Life) -> None:
    dead(life)
    redrive(life, DestinationArn=arn(life, life.stack.jobs_url))
    life.deliver()
    life.settle(life.row(), "exit-65-permanent")
    ((_, why),) = life.stack.dead_letters()
    assert (why["class"], why["attempts"]) == ("permanent", 1)


def test_message_that_sqs_moved_after_a_thousand_receives_is_redriven(life: Life) -> None:
    """SQS moves a message only if no dispatcher has finished for weeks."""
    life.send()
    for _ in range(1000):
        assert life.receive()
        life.stack.aws.clock.advance(120)
    assert life.receive() == []
    redrive(life)
    life.deliver()
    assert (life.row().state, life.row().attempt.number) == (State.RUNNING, 1)


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
