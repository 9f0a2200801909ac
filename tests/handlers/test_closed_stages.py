"""A stage is paused, retired, or removed while its jobs run or wait: nothing is lost unseen."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from longhaul.core.lease import State
from tests.builders import stage
from tests.handlers.life import Life
from tests.handlers.stack import deployed

HOUR_S = 3_600
JOB = "job"


def remove_the_stage(life: Life) -> None:
    """Deploy another stage in its place: its queues are deleted with all messages."""
    life.sweep()  # notes which stages there are
    for url in (life.stack.jobs_url, life.stack.dead_letters_url):
        del life.stack.sqs.queues[url]
    other = stage(name="other")
    for url in (other.queue_url, other.dead_letter_queue_url):
        life.stack.sqs.create_queue(QueueName=url.rpartition("/")[2])
    life.stack.deploy(stages=(other,))


def test_job_that_runs_ends_well_although_its_stage_was_removed(life: Life) -> None:
    life.submit(JOB)
    remove_the_stage(life)

    row = life.row(JOB)
    assert life.beat(row)["next"] == "wait"
    life.succeed(row)
    assert life.published(JOB)
    assert life.row(JOB).is_finished


def test_sweep_finds_what_was_left_in_a_removed_stage(life: Life) -> None:
    life.send(JOB)
    life.submit("waits")
    assert life.settle(life.row("waits"), "exit-1") == "RELEASED"
    life.close(life.row(JOB), "ABORTED")
    remove_the_stage(life)
    life.sweep(after_s=HOUR_S)

    assert {row.state for row in life.rows()} == {State.DEAD}
    assert all(row.is_finished for row in life.rows())
    waited = life.row("waits")
    assert waited.last_class == "stage_removed"
    assert "its stage was removed" in (waited.last_error or "")


def test_sweep_without_the_list_of_stages_repairs_those_that_are_deployed(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("longhaul.core.store.leases.DynamoLeases.stages", unreachable)
    life.submit(JOB)
    life.close(life.row(JOB), "ABORTED")
    assert life.sweep(after_s=HOUR_S)["settled"] == 1


def test_what_waits_in_a_retired_stage_is_neither_started_nor_lost(life: Life) -> None:
    life.submit("released")
    life.settle(life.row("released"), "exit-1")
    life.stack.redeploy(retired=True)
    life.send("fresh")
    renewed = 0
    for _ in range(8 * 20):  # longer than the queue keeps a message
        life.deliver(after_s=3 * HOUR_S)
        renewed += life.sweep().get("renewed", 0)
    assert [(row.job_id, row.state) for row in life.rows()] == [("released", State.RELEASED)]
    assert renewed == 0

    life.stack.redeploy(retired=False)
    life.deliver(after_s=12 * HOUR_S)

    states = {row.job_id: (row.state, row.attempt.number) for row in life.rows()}
    assert states == {"released": (State.RUNNING, 2), "fresh": (State.RUNNING, 1)}


# A paused stage: nothing starts, and all that needs no slot goes on.


@pytest.fixture
def renewing(output: Path) -> Iterator[Life]:
    with deployed(lease={"renew_receives": 2}) as stack:
        yield Life(stack, output)


def test_messages_wait_are_renewed_and_run_after_the_pause(renewing: Life) -> None:
    renewing.stack.parts.slots.pause(renewing.stage, renewing.stack.aws.clock.now())
    first = renewing.send("waits")
    for _ in range(3):
        renewing.deliver()
        renewing.stack.aws.clock.advance(1_800)
    assert renewing.rows() == []
    (copy,) = renewing.stack.sqs.queues[renewing.stack.jobs_url].messages.values()
    assert copy.attributes["longhaul_renews"]["StringValue"] == first

    renewing.stack.parts.slots.resume(renewing.stage, renewing.stack.aws.clock.now())
    renewing.deliver()
    assert renewing.row("waits").state is State.RUNNING
