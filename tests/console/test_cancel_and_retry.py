import json
from dataclasses import replace

import pytest

from longhaul.domain.lease import State
from longhaul.domain.outcome import OutcomeClass
from longhaul.retry import Retrier
from tests.builders import BODY, stage
from tests.console.conftest import World


def test_cancel_says_what_becomes_of_each_job(world: World) -> None:
    world.claim("running")
    lease = world.claim("released")
    world.parts.leases.settle(lease, replace(lease, state=State.RELEASED, settled_attempt=1, receipt_handle=None))
    done = world.run("cancel", "running", "released", "queued")
    assert done.exit_code == 0
    assert done.stdout == (
        "running: running: it is being stopped\nreleased: cancelled\nqueued: not claimed yet: it ends when its message comes\n"
    )
    assert world.state("released") is State.CANCELLED
    record = json.loads(world.run("cancel", "queued", "--json").stdout)
    assert record == {"job_id": "queued", "stage": "main", "state": "CANCELLING", "queued": True}


def test_what_has_ended_cannot_be_cancelled_and_the_exit_code_says_so(world: World) -> None:
    world.end(world.claim("done"), OutcomeClass.SUCCEEDED)
    done = world.run("cancel", "done")
    assert (done.exit_code, done.stdout) == (1, "done: has ended before: SUCCEEDED\n")
    assert world.run("cancel", "../x").exit_code == 2


def test_a_queued_job_of_several_stages_needs_its_stage(world: World) -> None:
    known = world.settings.model_copy(update={"stages": (*world.settings.stages, stage(name="night"))})
    replace(world, settings=known).deploy()
    done = world.run("cancel", "queued")
    assert (done.exit_code, "name one with --stage" in done.stderr) == (2, True)
    assert world.parts.leases.load("main#queued") is None
    assert world.run("cancel", "queued", "--stage", "night").exit_code == 0


def test_a_dead_job_is_sent_again_under_its_old_id(world: World) -> None:
    world.end(world.claim("dead"))
    done = world.run("retry", "dead")
    assert (done.exit_code, done.stdout) == (0, "dead\n")
    (message,) = world.queued()
    assert json.loads(message["Body"]) == BODY  # which names no id: the attribute does
    assert message["MessageAttributes"]["job_id"]["StringValue"] == "dead"
    assert "dead-letter queue stays there" in done.stderr


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (None, "it is running"),
        (OutcomeClass.FAILED, "it is between attempts and will be tried again by itself"),
        (OutcomeClass.SUCCEEDED, "it has succeeded, and the same work under the same key is a duplicate"),
    ],
)
def test_what_cannot_be_retried_says_why_and_then_nothing_is(
    world: World, kind: OutcomeClass | None, said: str
) -> None:
    world.end(world.claim("dead"))
    lease = world.claim("other")
    if kind:
        world.end(lease, kind)
    done = world.run("retry", "dead", "other")
    assert (done.exit_code, f"other: {said}" in done.stderr) == (1, True)
    assert world.queued() == []


def test_a_job_cancelled_before_it_began_has_nothing_to_send(world: World) -> None:
    world.run("cancel", "early")
    done = world.run("retry", "early")
    assert (done.exit_code, "submit it again" in done.stderr) == (1, True)


def test_retrying_an_unknown_job_finds_nothing(world: World) -> None:
    assert world.run("retry", "nobody").exit_code == 3


def test_the_producers_ten_attributes_survive_a_retry(world: World) -> None:
    lease = world.end(world.claim("dead"))
    content = world.parts.requests.get(lease.request_ref)
    ten = {f"a{n}": {"dataType": "String", "stringValue": str(n)} for n in range(10)}
    world.parts.requests.put(lease.request_ref, replace(content, attributes=ten))
    Retrier(world.settings, world.parts.queue, world.parts.requests).retry(lease)
    (message,) = world.queued()
    assert len(message["MessageAttributes"]) == 10
    assert message["MessageAttributes"]["job_id"]["StringValue"] == "dead"
    assert set(json.loads(message["MessageAttributes"]["moved_attributes"]["StringValue"])) == {"a0", "a1"}
