import json
from dataclasses import replace
from typing import Any

import pytest

from longhaul.domain import transitions
from longhaul.domain.claim import Claim, new_run
from longhaul.domain.lease import Lease, Owed, State
from longhaul.domain.lineage import Lineage
from longhaul.domain.message import Message
from longhaul.domain.request import read_request
from longhaul.domain.verdict import OutcomeClass
from tests.builders import BODY, BUCKET, OUTPUT, message, stage
from tests.cli.conftest import World


def succeeded(world: World, job_id: str, request: dict[str, Any] = BODY, **row: Any) -> Lease:
    lease = world.end(world.claim(job_id, **row), OutcomeClass.SUCCEEDED)
    world.parts.requests.put(lease.request_ref, Message(json.dumps(request), {}))
    return lease


def sent(world: World) -> dict[str, Any]:
    (received,) = world.queued()
    request: dict[str, Any] = json.loads(received["Body"])
    return request


def test_a_success_runs_again_as_another_job_that_names_it(world: World) -> None:
    succeeded(world, "day-7")
    done = world.run("rerun", "day-7")
    assert (done.exit_code, done.stdout) == (0, "day-7-rerun-1\n")
    assert sent(world) == {**BODY, "job_id": "day-7-rerun-1", "rerun_of": "day-7"}


def test_reruns_are_numbered_and_each_is_shown_beside_the_other(world: World) -> None:
    succeeded(world, "day-7")
    succeeded(world, "day-7-rerun-1", rerun_of="day-7")
    for job in ("day-7", "day-7-rerun-1"):
        assert world.run("rerun", job).stdout == "day-7-rerun-2\n"
    assert "rerun as   day-7-rerun-1 (SUCCEEDED)" in world.run("status", "day-7").stdout.replace(
        "\t", "   "
    )
    assert "rerun as" not in world.run("status", "day-7-rerun-1").stdout
    succeeded(world, "day-7-rerun-2", rerun_of="day-7-rerun-1")
    assert "rerun as   day-7-rerun-2 (SUCCEEDED)" in world.run("status", "day-7-rerun-1").stdout
    (record,) = map(json.loads, world.run("status", "day-7-rerun-1", "--json").stdout.splitlines())
    assert record["rerun_of"] == "day-7"


def test_a_row_keeps_what_it_is_a_rerun_of(world: World) -> None:
    request = read_request(json.dumps({**BODY, "rerun_of": "day-7"}))
    now = world.clock.now()
    row = new_run(
        None, message("day-7-rerun-1", request=request), stage(), world.settings.lease, now
    )
    world.parts.leases.apply(transitions.claim(Claim(row, replaces=None), stage()))
    stored = world.parts.leases.load(row.key)
    assert stored is not None
    assert stored.rerun_of == "day-7"
    assert request.fingerprint() == read_request(json.dumps(BODY)).fingerprint()


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
    assert (record["job_id"], record["rerun_of"]) == ("day-7", "day-7")
    (received,) = world.queued()
    assert received["MessageAttributes"]["job_id"]["StringValue"] == "day-7"
    assert json.loads(received["Body"]) == {**BODY, "size": "large", "afresh": True}
    assert ("dead letter" in done.stderr) == (kind is OutcomeClass.PERMANENT)


def test_a_dead_member_keeps_its_place_in_its_pipeline(world: World) -> None:
    lineage = Lineage(root="main#root", parent="main#root")
    lease = world.end(world.claim("member", lineage=lineage))
    request = {**BODY, "job_id": "member", "lineage": json.loads(lineage.model_dump_json())}
    world.parts.requests.put(lease.request_ref, Message(json.dumps(request), {}))
    assert world.run("rerun", "member", "--size", "large").exit_code == 0
    assert sent(world)["lineage"] == request["lineage"]


def test_the_inputs_of_a_join_come_with_its_rerun_which_is_no_member(world: World) -> None:
    lineage = Lineage(root="main#root", parent="main#root", inputs_ref="longhaul/joined/x")
    request = {
        "job": "flights_clean",
        "output": BODY["output"],
        "job_id": "join",
        "lineage": lineage.model_dump(exclude_none=True),
    }
    succeeded(world, "join", request, lineage=lineage)
    done = world.run("rerun", "join")
    assert (done.exit_code, "no longer kept" in done.stderr) == (1, True)
    inputs = {"clean_00000": f"s3://{BUCKET}/clean/0/", "clean_00001": f"s3://{BUCKET}/clean/1/"}
    world.parts.requests.put_inputs("longhaul/joined/x", inputs)
    assert world.run("rerun", "join").exit_code == 0
    again = sent(world)
    assert (again["inputs"], "lineage" in again) == (inputs, False)


def test_a_tree_whose_root_has_expired_is_refused(world: World) -> None:
    world.end(world.claim("member", lineage=Lineage(root="main#gone", parent="main#gone")))
    done = world.run("rerun", "member", "--tree")
    assert (done.exit_code, "gone, is no longer known" in done.stderr) == (1, True)


def test_what_has_not_ended_is_not_run_again(world: World) -> None:
    world.claim("running")
    assert "it is running" in world.run("rerun", "running").stderr
    succeeded(world, "done")
    world.claim("done-rerun-1", rerun_of="done")
    done = world.run("rerun", "done")
    assert (done.exit_code, "its rerun done-rerun-1 is RUNNING" in done.stderr) == (1, True)
    assert world.queued() == []


def test_a_request_that_is_no_longer_kept_is_named(world: World) -> None:
    lease = succeeded(world, "old")
    world.aws.s3.delete_object(Bucket=BUCKET, Key=lease.request_ref)
    done = world.run("rerun", "old")
    assert (done.exit_code, "its request is no longer kept" in done.stderr) == (1, True)


def test_changes_that_can_never_run_are_refused(world: World) -> None:
    succeeded(world, "day-7")
    done = world.run("rerun", "day-7", "--size", "huge")
    assert (done.exit_code, "size" in done.stderr, world.queued()) == (2, True, [])


def test_an_output_that_grows_is_named(world: World) -> None:
    succeeded(world, "adds", {**BODY, "mode": "append"})
    assert "what adds added stays beside it" in world.run("rerun", "adds").stderr


def test_nothing_runs_again_in_a_retired_stage(bare: World) -> None:
    bare.deploy()
    succeeded(bare, "day-7")
    retired = (stage(retired=True),)
    replace(bare, settings=bare.settings.model_copy(update={"stages": retired})).deploy()
    done = bare.run("rerun", "day-7")
    assert (done.exit_code, "is retired" in done.stderr) == (2, True)


def test_a_long_id_is_cut_and_stays_its_own(world: World) -> None:
    ids = {f"{'x' * 120}{n}" for n in range(2)}
    for each in ids:
        succeeded(world, each)
    again = {world.run("rerun", each).stdout.strip() for each in ids}
    assert (len(again), max(map(len, again)) <= 128) == (2, True)
    assert all(world.state(each) is State.SUCCEEDED for each in ids)


@pytest.mark.parametrize("kind", [OutcomeClass.SUCCEEDED, OutcomeClass.PERMANENT])
def test_a_rerun_with_other_changes_is_refused_until_the_first_has_begun(
    world: World, kind: OutcomeClass
) -> None:
    """Both have one id: the second became a dead letter, unseen by who had sent it."""
    lease = world.end(world.claim("day-7"), kind)
    id_ = "day-7-rerun-1" if kind is OutcomeClass.SUCCEEDED else "day-7"
    world.clock.advance(1)
    for _ in range(2):  # the same twice is a duplicate
        assert world.run("rerun", "day-7", "--size", "large").stdout == f"{id_}\n"
    other = world.run("rerun", "day-7", "--size", "medium")
    assert other.exit_code == 1
    assert f"{id_} was sent with other changes a moment ago" in other.stderr
    assert f"longhaul cancel {id_}" in other.stderr

    world.clock.advance(1)
    world.run("cancel", id_, "--stage", "main", "--only")
    world.clock.advance(1)
    after = world.run("rerun", "day-7", "--size", "medium")
    assert after.exit_code == 0, after.stderr
    assert lease.run > 0


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
    world.parts.leases.apply(transitions.strike(lease, Owed.PUBLISH, world.clock.now()))
    assert world.run("rerun", "day-7").exit_code == 0


def test_nor_is_one_whose_last_rerun_is_not_published(world: World) -> None:
    succeeded(world, "day-7")
    unpublished(world, "day-7-rerun-1", rerun_of="day-7")
    done = world.run("rerun", "day-7")
    assert (done.exit_code, world.queued()) == (1, [])
    assert "the output of its rerun day-7-rerun-1 is not published yet: wait" in done.stderr
