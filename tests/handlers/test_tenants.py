"""Tenants that share a stage take turns; a stage with one tenant writes nothing for that."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from longhaul.domain.lease import State
from simulation.aws.errors import unavailable
from tests import builders
from tests.builders import BUCKET
from tests.handlers.conftest import deployed
from tests.handlers.life import Life
from tests.handlers.test_poison import failing


@pytest.fixture
def life(output: Path) -> Iterator[Life]:
    with deployed(check=True, slots=1) as stack:
        yield Life(stack, output)


def send(life: Life, job_id: str, group: str | None) -> None:
    body = builders.body(job_id=job_id, output=f"s3://{BUCKET}/out/{job_id}/")
    given = {"MessageGroupId": group} if group else {}
    life.stack.sqs.send_message(QueueUrl=life.stack.jobs_url, MessageBody=body, **given)


def end(life: Life, job_id: str) -> None:
    life.complete(life.row(job_id))
    assert life.settle(life.row(job_id)) == "SUCCEEDED"


def runs(life: Life, job_id: str) -> bool:
    row = life.stack.parts.leases.load(f"main#{job_id}")
    return row is not None and row.state is State.RUNNING


@pytest.fixture
def contested(life: Life) -> Life:
    """`noisy-1` runs, `noisy-2` and then `quiet` were put back; the slot is free again."""
    for n in (1, 2):
        send(life, f"noisy-{n}", "noisy")
        life.deliver()
    send(life, "quiet", "other")
    life.deliver()
    end(life, "noisy-1")
    return life


def show(life: Life, job_id: str) -> None:
    """Only this message is visible."""
    queue = life.stack.sqs.queues[life.stack.jobs_url]
    now = life.stack.aws.clock.now().timestamp()
    for message in list(queue.messages.values()):
        queue.show(message, now if job_id in message.body else max(message.shows_at, now + 600))
    life.deliver()


def test_a_free_slot_is_left_to_the_tenant_whose_claim_is_the_longest_ago(contested: Life) -> None:
    show(contested, "noisy-2")
    assert not runs(contested, "noisy-2")
    show(contested, "quiet")
    assert runs(contested, "quiet")
    end(contested, "quiet")
    show(contested, "noisy-2")
    assert runs(contested, "noisy-2")


def test_a_dead_job_that_is_sent_again_waits_for_its_tenants_turn(life: Life) -> None:
    send(life, "noisy-1", "noisy")
    life.deliver()
    assert life.settle(life.row("noisy-1"), "exit-65-permanent") == "DEAD"
    send(life, "noisy-2", "noisy")
    life.deliver()
    send(life, "quiet", "other")
    life.deliver()
    end(life, "noisy-2")
    life.stack.aws.clock.advance(40)
    send(life, "noisy-1", "noisy")  # corrected
    show(life, "noisy-1")
    assert not runs(life, "noisy-1")
    show(life, "quiet")
    assert runs(life, "quiet")


def test_a_slot_is_not_left_for_long_to_a_tenant_that_does_not_come(contested: Life) -> None:
    contested.stack.aws.clock.advance(60)
    show(contested, "noisy-2")
    assert runs(contested, "noisy-2")


def test_a_message_beside_other_tenants_is_looked_at_soon(contested: Life) -> None:
    """Not after a part of the backlog's time, which is the others'."""
    now = contested.stack.aws.clock.now().timestamp()
    (message,) = (
        each
        for each in contested.stack.sqs.queues[contested.stack.jobs_url].messages.values()
        if "quiet" in each.body
    )
    assert message.shows_at - now <= 15


@pytest.mark.parametrize("group", [None, "only"])
def test_a_lone_tenant_waits_without_a_write(life: Life, group: str | None) -> None:
    for n in range(3):
        send(life, f"job-{n}", group)
    for _ in range(5):
        life.deliver()
        life.stack.aws.clock.advance(60)
    assert not any("waited_" in str(call.arguments) for call in life.stack.aws.gate.calls)
    item = next(each for each in life.items() if each["item"]["S"] == "slots")
    assert [name for name in item if name.startswith("waited_")] == []
    assert len([name for name in item if name.startswith("claimed_by_")]) == (group is not None)


def test_a_message_without_a_group_takes_turns_with_tenants(life: Life) -> None:
    send(life, "noisy-1", "noisy")
    life.deliver()
    send(life, "plain", None)
    life.deliver()
    send(life, "noisy-2", "noisy")
    life.deliver()
    end(life, "noisy-1")
    show(life, "noisy-2")
    show(life, "plain")
    assert (runs(life, "noisy-2"), runs(life, "plain")) == (False, True)


def test_a_mark_that_cannot_be_written_costs_nothing_else(life: Life) -> None:
    send(life, "noisy-1", "noisy")
    life.deliver()
    send(life, "quiet", "other")
    with failing(life.stack, unavailable, "UpdateItem"):
        life.deliver()
    assert life.stack.messages()[0] == 0
    end(life, "noisy-1")
    show(life, "quiet")
    assert runs(life, "quiet")
