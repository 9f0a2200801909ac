import json
from collections.abc import Callable
from typing import Any

import pytest

from longhaul.cli.display.job import NOT_KNOWN
from longhaul.core import transitions
from longhaul.core.descent import Lineage
from longhaul.core.lease import Lease, Owed, State
from longhaul.core.message import Message
from longhaul.core.settlement import end_cancelled
from longhaul.core.verdict import OutcomeClass
from tests.builders import BODY, changed, stage, there
from tests.cli.conftest import World


def test_cancel_reports_its_effect_on_each_job(world: World) -> None:
    world.claim("running")
    lease = world.claim("released")
    world.parts.leases.apply(
        transitions.settle(
            lease, changed(lease, state=State.RELEASED, settled_attempt=1, receipt_handle=None)
        )
    )
    world.end(world.claim("done"), OutcomeClass.SUCCEEDED)
    world.run(
        *("cancel", "running", "released", "queued", "done"),
        code=1,
        prints="running: running: it is being stopped\n"
        "released: cancelled\n"
        f"queued: {NOT_KNOWN}\n"
        "done: has ended before: SUCCEEDED; a rerun that is queued ends when its message comes\n",
    )
    world.run("cancel", "../x", code=2)
    assert world.state("released") is State.CANCELLED
    record = json.loads(world.run("cancel", "queued", "--json").stdout)
    assert record == {"job_id": "queued", "stage": "main", "state": "CANCELLING", "queued": True}


def of_two_stages(world: World) -> None:
    world.redeploy(stages=(*world.settings.stages, stage(name="night")))


def test_a_queued_job_is_cancelled_in_whatever_stage_it_is(world: World) -> None:
    of_two_stages(world)
    for _ in range(2):  # what was sent in between, too
        assert world.run("cancel", "queued").stdout == f"queued: {NOT_KNOWN}\n"
    for name in ("main", "night"):
        mark = there(world.parts.leases.load(f"{name}#queued"))
        assert mark.is_mark
    records = map(json.loads, world.run("cancel", "queued", "--json").stdout.splitlines())
    assert [(each["stage"], each["queued"]) for each in records] == [
        ("main", True),
        ("night", True),
    ]
    world.run("status", "queued")


def test_a_job_is_cancelled_by_its_label_and_never_by_how_its_id_begins(world: World) -> None:
    """The beginning of an id may be the id of another job, which is still queued."""
    world.claim("flights-2", label="7 October")
    assert world.run("cancel", "flights").stdout.startswith("flights: nothing is known of it")
    assert not world.run("status", "--state", "cancelling").stdout
    assert world.run("cancel", "7 October").stdout == "flights-2: running: it is being stopped\n"
    world.run("cancel", "8 October", code=2)


def test_a_label_that_may_be_the_id_of_a_queued_job_cancels_nothing(world: World) -> None:
    world.claim("other", label="2026-10-07")
    world.run(
        "cancel",
        "2026-10-07",
        code=2,
        says="the label of other, and may be the id of a job that is queued",
        prints="",
    )
    assert not world.run("status", "--state", "cancelling").stdout


def end_mark(world: World, key: str) -> None:
    """The message of the job has come."""
    mark = there(world.parts.leases.load(key))
    ended = end_cancelled(mark, world.clock.now())
    world.parts.leases.apply(transitions.end_waiting(mark, ended))
    world.parts.leases.apply(transitions.strike(ended, Owed.DELETE, world.clock.now()))


def stop(world: World) -> None:
    world.claim("job")
    world.run("cancel", "job")


def cancel_before_it_begins(world: World) -> None:
    world.run("cancel", "job")
    end_mark(world, "main#job")


@pytest.mark.parametrize(
    ("arrange", "said"),
    [
        pytest.param(lambda world: world.claim("job"), "it is running", id="running"),
        pytest.param(
            lambda world: world.end(world.claim("job"), OutcomeClass.FAILED),
            "it is between attempts and will be tried again by itself",
            id="released",
        ),
        pytest.param(
            stop, "it is being cancelled: rerun it once it is CANCELLED", id="being stopped"
        ),
        pytest.param(
            lambda world: world.run("cancel", "job"),
            "it ends when its message comes: rerun it once it is CANCELLED",
            id="queued, and cancelled",
        ),
        pytest.param(
            cancel_before_it_begins,
            "it was cancelled before it began, so no request of it is kept: submit it again",
            id="cancelled before it began",
        ),
        pytest.param(
            lambda world: world.refuse("main#job", "job: there is no job 'nope'"),
            "its message was no request: submit a correct one",
            id="refused",
        ),
        # Its publication could come after the rerun's, and take its place.
        pytest.param(
            lambda world: world.succeed(world.claim("job"), owes=True),
            "it has succeeded, and its output is not published yet: wait",
            id="not published",
        ),
    ],
)
def test_one_job_that_cannot_run_again_stops_all_and_says_why(
    world: World, arrange: Callable[[World], object], said: str
) -> None:
    world.end(world.claim("dead"))
    arrange(world)
    world.run("rerun", "dead", "job", code=1, says=f"job: {said}")
    assert world.queued() == []


def succeeded(world: World, job_id: str, request: dict[str, Any] = BODY, **row: Any) -> Lease:
    lease = world.end(world.claim(job_id, **row), OutcomeClass.SUCCEEDED)
    world.parts.requests.put(lease.request_ref, Message(json.dumps(request), {}))
    return lease


def sent(world: World) -> dict[str, Any]:
    (received,) = world.queued()
    return json.loads(received["Body"])


@pytest.mark.parametrize("only", [False, True])
def test_a_success_runs_again_under_its_id_and_says_which_run_it_replaces(
    world: World, *, only: bool
) -> None:
    lease = succeeded(world, "day-7")
    assert world.run("rerun", "day-7", *(["--only"] if only else [])).stdout == "day-7\n"
    (received,) = world.queued()
    assert json.loads(received["Body"]) == BODY
    names = {name: each["StringValue"] for name, each in received["MessageAttributes"].items()}
    again = f"{lease.run}/only" if only else str(lease.run)
    assert names == {"job_id": "day-7", "longhaul_again": again}


def test_params_and_size_take_the_place_of_the_requests(world: World) -> None:
    succeeded(world, "day-7", {**BODY, "params": {"n": 1, "kept": True}, "size": "small"})
    world.run("rerun", "day-7", "--param", "n=2", "--size", "large")
    request = sent(world)
    assert (request["params"], request["size"]) == ({"n": 2, "kept": True}, "large")


@pytest.mark.parametrize("kind", [OutcomeClass.PERMANENT, OutcomeClass.CANCELLED])
def test_a_job_that_died_or_was_cancelled_runs_again_under_its_id(
    world: World, kind: OutcomeClass
) -> None:
    world.end(world.claim("day-7"), kind)
    done = world.run("rerun", "day-7", "--size", "large", "--afresh", "--json")
    record = json.loads(done.stdout)
    assert record["job_id"] == "day-7"
    (received,) = world.queued()
    assert received["MessageAttributes"]["job_id"]["StringValue"] == "day-7"
    assert json.loads(received["Body"]) == {**BODY, "size": "large", "afresh": True}
    assert ("dead letter" in done.stderr) == (kind is OutcomeClass.PERMANENT)


def test_a_tree_whose_root_has_expired_is_refused(world: World) -> None:
    world.end(world.claim("member", lineage=Lineage(root="main#gone", parent="main#gone")))
    world.run("rerun", "member", "--tree", code=1, says="gone, is no longer known")


def test_a_job_beside_an_unknown_name_is_not_run_again_by_its_old_letter(world: World) -> None:
    succeeded(world, "day-7")
    world.bury("day-7")
    world.bury("gone")
    world.run("rerun", "day-7", "gone", "--yes", code=3, says="in a call of its own")
    assert (len(world.dead()), world.queued()) == (2, [])
