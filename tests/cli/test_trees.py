"""The commands on a job that has led to others."""

import json
from dataclasses import replace

import pytest
from rich.console import Console

from longhaul.core import transitions
from longhaul.core.descent import Lineage, child_id
from longhaul.core.lease import Lease, State
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.verdict import OutcomeClass
from tests.builders import BUCKET, OUTPUT, stage, there
from tests.cli.conftest import World
from tests.cli.page.scenes import member_of, three_stages

CLEAN = stage(name="clean")


@pytest.fixture
def tree(world: World) -> World:
    """`year` has succeeded and emitted three jobs, all queued; a join waits for them."""
    three_stages(world)
    succeed(world, world.claim("year", opens=("total",)), emits=3)
    return world


def succeed(world: World, row: Lease, emits: int = 0) -> None:
    world.succeed(row, replace(OUTPUT, emitted={"clean": emits} if emits else None))


def reread(world: World, row: Lease) -> Lease:
    return there(world.parts.leases.load(row.key))


def child(world: World, n: int | str, name: str = "clean") -> str:
    root = there(world.parts.leases.load("main#year"))
    return child_id(root.key, name, root.key, n)


def member(world: World, n: int) -> Lease:
    root = world.parts.leases.load("main#year")
    lineage = member_of(root, n, 3) if root else Lineage(root="main#year", parent="main#year")
    return world.claim(child(world, n), CLEAN, lineage=lineage)


def test_people_read_the_name_of_a_job_and_programs_its_id(
    tree: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = member(tree, 0)
    piped = tree.run("status", "year").stdout
    assert f"├─ {row.job_id}\t\tRUNNING\tclean" in piped
    monkeypatch.setattr(Console, "is_terminal", True)
    assert json.loads(tree.run("status", "year/clean", "--json").stdout)["job_id"] == row.job_id
    for command in (("status", "year"), ("status",), ("cost", "--jobs")):
        shown = tree.run(*command).stdout
        assert ("year/clean" in shown, row.job_id in shown) == (True, False)


def test_a_tree_runs_again_from_its_root_once_it_has_ended(tree: World) -> None:
    def refused(job_id: str) -> str:
        done = tree.run("rerun", "year", "--tree", code=1, says=job_id)
        return done.stderr

    members = [member(tree, n) for n in (0, 1)]
    for each in members:
        tree.end(each)
    refused(child(tree, 2))  # it is still queued
    members.append(member(tree, 2))
    refused(child(tree, 2))
    tree.end(members[2])
    assert tree.run("rerun", members[0].job_id, "--tree").stdout == "year\n"


def test_a_cancel_of_a_success_cancels_what_descends_from_it(tree: World) -> None:
    running = member(tree, 0)
    assert tree.run("cancel", "year").stdout.splitlines() == [
        f"{running.job_id}: running: it is being stopped",
        f"{child(tree, 1)}: not claimed yet: it ends when its message comes",
        f"{child(tree, 2)}: not claimed yet: it ends when its message comes",
    ]
    assert reread(tree, running).cancel_requested_at is not None
    tree.run(
        "cancel",
        "year",
        "--only",
        code=1,
        prints="year: has ended before: SUCCEEDED; "
        "a rerun that is queued ends when its message comes\n",
    )


def test_what_died_below_a_success_runs_again_alone(tree: World) -> None:
    dead = tree.end(member(tree, 1))
    succeed(tree, member(tree, 0))
    assert tree.run("rerun", "year", "--dead").stdout == f"{dead.job_id}\n"


def test_a_wait_ends_with_the_tree_and_its_exit_code_is_the_trees(tree: World) -> None:
    def ends() -> None:
        for n in range(3):
            succeed(tree, member(tree, n))

    def joins() -> None:
        lineage = Lineage(root="main#year", parent="main#year", inputs_ref="joined")
        join = child(tree, "join", "total")
        row = tree.claim(join, tree.settings.stages[2], lineage=lineage)
        tree.end(row, why="no room")

    tree.clock.meanwhile.extend([ends, joins])
    done = tree.run("status", "year", "--watch", code=1)
    lines = done.stderr.splitlines()
    assert "year: main 1 of 1, clean 0 of 3, total waits for 3" in lines
    assert "year: main 1 of 1, clean 3 of 3, total 0 of 1" in lines
    assert "no room" in done.stderr
    assert lines[-2:] == [
        "year: main 1 of 1, clean 3 of 3, total 0 of 1 (1 DEAD)",
        "0 of 1 succeeded, with what followed",
    ]
    tree.run("status", "year", "--watch", "--only")


def test_the_log_of_a_success_goes_on_with_those_below_it(tree: World) -> None:
    row = member(tree, 0)
    task = "arn:aws:ecs:us-east-1:1:task/Longhaul/t1"
    tree.parts.leases.report(transitions.register_task(row.id, task, tree.clock.now()))
    tree.aws.logs.write("/longhaul/jobs", "job/job/t1", "read 7 files")
    done = tree.run("logs", "year", "--json")
    (line,) = map(json.loads, done.stdout.splitlines())
    assert (line["job_id"], line["text"]) == (row.job_id, "read 7 files")
    assert "attempt 1 of job year" in done.stderr
    tree.run("logs", "year", "--only", code=3)


def test_queued_jobs_of_a_tree_say_what_they_wait_for(tree: World) -> None:
    assert "3 QUEUED; waits for its message" in tree.run("status", "year").stdout
    tree.run("stage", "slots", "clean", "1")
    member(tree, 0)
    assert "2 QUEUED; waits for a slot" in tree.run("status", "year").stdout
    tree.run("stage", "pause", "clean")
    said = tree.run("status", "year").stdout
    assert "2 QUEUED; waits for its stage, which is paused" in said
    records = [
        json.loads(line) for line in tree.run("status", "year", "--json").stdout.splitlines()
    ]
    assert [each["waits_for"] for each in records if each["state"] == "QUEUED"] == ["pause"] * 2


def test_what_is_sent_behind_an_opener_by_hand_starts_no_join_and_says_so(tree: World) -> None:
    tree.end(tree.claim("by-hand", CLEAN), OutcomeClass.SUCCEEDED)
    said = "total will not start: a join belongs to a job of main"
    assert said in tree.run("status", "by-hand", "--stage", "clean").stdout
    assert said not in tree.run("status", "year").stdout

    over = ("--over", "day=1,2", "--input", f"flights=s3://{BUCKET}/raw/{{day}}.csv")
    output = ("--output", f"s3://{BUCKET}/clean/{{day}}/")
    tree.run(
        "backfill",
        "--stage",
        "clean",
        "--name",
        "oct",
        *over,
        *output,
        code=2,
        says="backfill main (--stage main)",
    )


def test_a_cancel_of_a_tree_covers_what_a_member_led_to_meanwhile(
    tree: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, cancel = member(tree, 0), DynamoLeases.request_cancel

    def succeeds_before(of: DynamoLeases, key: str, name: str) -> Lease:
        if key == first.key and reread(tree, first).state is State.RUNNING:
            succeed(tree, first, emits=1)
        return cancel(of, key, name)

    monkeypatch.setattr(DynamoLeases, "request_cancel", succeeds_before)
    below = child_id("main#year", "clean", first.key, 0)
    told = f"{below}: not claimed yet: it ends when its message comes"
    assert told in tree.run("cancel", "year").stdout


def test_following_a_success_goes_on_with_all_that_descends_from_it(tree: World) -> None:
    def begin(n: int) -> Lease:
        row = member(tree, n)
        task = f"arn:aws:ecs:us-east-1:1:task/Longhaul/t{n}"
        return tree.parts.leases.report(transitions.register_task(row.id, task, tree.clock.now()))

    def write(n: int, text: str) -> None:
        tree.aws.logs.write("/longhaul/jobs", f"job/job/t{n}", text)

    rows = [begin(0), begin(1)]
    write(0, "zero begins")

    def both() -> None:
        write(0, "zero ends")
        write(1, "one begins")
        succeed(tree, rows[0])

    def rest() -> None:
        tree.end(rows[1], why="no room")
        tree.end(member(tree, 2))
        write(1, "one, a little late")

    tree.clock.meanwhile.extend([both, rest])
    done = tree.run("logs", "year", "--follow", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["job_id"] == rows[0].job_id, each["text"]) for each in lines] == [
        (True, "zero begins"),
        (True, "zero ends"),
        (False, "one begins"),
        (False, "one, a little late"),
    ]
    assert done.stderr.splitlines()[-1] == (
        "year: main 1 of 1, clean 1 of 3 (2 DEAD), total waits for 2"
    )
    assert tree.run("logs", "year", "--follow", "--only").stdout == ""
