import json
from dataclasses import replace
from typing import Any

import pytest

from longhaul.core import transitions
from longhaul.core.descent import Lineage
from longhaul.core.lease import Lease
from longhaul.core.message import Message
from longhaul.core.verdict import OutcomeClass
from tests.builders import BODY, BUCKET, OUTPUT, stage
from tests.cli.conftest import World


def succeeded(world: World, job_id: str, request: dict[str, Any] = BODY, **row: Any) -> Lease:
    lease = world.end(world.claim(job_id, **row), OutcomeClass.SUCCEEDED)
    world.parts.requests.put(lease.request_ref, Message(json.dumps(request), {}))
    return lease


def sent(world: World) -> dict[str, Any]:
    (received,) = world.queued()
    request: dict[str, Any] = json.loads(received["Body"])
    return request


@pytest.mark.parametrize("only", [False, True])
def test_a_success_runs_again_under_its_id_and_says_which_run_it_replaces(
    world: World, *, only: bool
) -> None:
    lease = succeeded(world, "day-7")
    done = world.run("rerun", "day-7", *(["--only"] if only else []))
    assert (done.exit_code, done.stdout) == (0, "day-7\n")
    (received,) = world.queued()
    assert json.loads(received["Body"]) == BODY
    names = {name: each["StringValue"] for name, each in received["MessageAttributes"].items()}
    again = f"{lease.run}/only" if only else str(lease.run)
    assert names == {"job_id": "day-7", "longhaul_again": again}


def test_params_and_size_take_the_place_of_the_requests(world: World) -> None:
    succeeded(world, "day-7", {**BODY, "params": {"n": 1, "kept": True}, "size": "small"})
    done = world.run("rerun", "day-7", "--param", "n=2", "--size", "large")
    assert done.exit_code == 0
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
    done = world.run("rerun", "member", "--tree")
    assert (done.exit_code, "gone, is no longer known" in done.stderr) == (1, True)


def test_a_request_that_is_no_longer_kept_is_named(world: World) -> None:
    lease = succeeded(world, "old")
    world.aws.s3.delete_object(Bucket=BUCKET, Key=lease.request_ref)
    done = world.run("rerun", "old")
    assert (done.exit_code, "its request is no longer kept" in done.stderr) == (1, True)


def test_changes_that_can_never_run_are_refused(world: World) -> None:
    succeeded(world, "day-7")
    assert world.run("rerun", "day-7", "--size", "large", "--dry-run").stdout == "day-7\n"
    done = world.run("rerun", "day-7", "--size", "huge")
    assert (done.exit_code, "size" in done.stderr, world.queued()) == (2, True, [])


def test_nothing_runs_again_in_a_retired_stage(bare: World) -> None:
    bare.deploy()
    succeeded(bare, "day-7")
    retired = (stage(retired=True),)
    replace(bare, settings=bare.settings.model_copy(update={"stages": retired})).deploy()
    done = bare.run("rerun", "day-7")
    assert (done.exit_code, "is retired" in done.stderr) == (2, True)


def unpublished(world: World, job_id: str, **row: Any) -> Lease:
    lease = world.claim(job_id, **row)
    world.parts.leases.report(transitions.commit(lease.id, OUTPUT))
    committed = world.parts.leases.load(lease.key)
    assert committed is not None
    world.parts.requests.put(lease.request_ref, Message(json.dumps(BODY), {}))
    return world.end(committed, OutcomeClass.SUCCEEDED, owes=True)


def test_a_success_whose_output_is_not_published_is_not_run_again(world: World) -> None:
    """Its publication could come after the rerun's, and take its place."""
    lease = unpublished(world, "day-7")
    done = world.run("rerun", "day-7")
    assert (done.exit_code, world.queued()) == (1, [])
    assert "its output is not published yet: wait" in done.stderr
    for owed in lease.owed:
        lease = world.parts.leases.apply(transitions.strike(lease, owed, world.clock.now()))
    assert world.run("rerun", "day-7").exit_code == 0


def test_a_job_beside_an_unknown_name_is_not_run_again_by_its_old_letter(world: World) -> None:
    succeeded(world, "day-7")
    world.bury("day-7")
    world.bury("gone")
    refused = world.run("rerun", "day-7", "gone", "--yes")
    assert (refused.exit_code, "in a call of its own" in refused.stderr) == (3, True)
    assert (len(world.dead()), world.queued()) == (2, [])
