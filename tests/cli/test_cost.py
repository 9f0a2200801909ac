"""`longhaul cost`: sums by stage, job and attempt."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longhaul.core import transitions
from longhaul.core.lease import Lease
from longhaul.core.settings import TaskSettings, TaskSize
from longhaul.core.verdict import OutcomeClass
from longhaul.operations.cost import USUAL
from tests.cli.conftest import World

TASKS = TaskSettings(
    sizes={
        "small": TaskSize(cpu=1024, memory_mib=4096, disk_gib=30),
        "medium": TaskSize(cpu=4096, memory_mib=16_384, disk_gib=60),
    }
)


@pytest.fixture
def priced(world: World) -> World:
    """A stack whose settings have its sizes."""
    world.redeploy(tasks=TASKS)
    return world


def ran(world: World, job_id: str, kind: OutcomeClass, hours: float = 1.0) -> Lease:
    """A job that ended after a task of that length."""
    return world.end(_worked(world, world.claim(job_id), hours), kind)


def _worked(world: World, lease: Lease, hours: float) -> Lease:
    arn = f"arn:aws:ecs:us-east-1:1:task/Longhaul/{lease.attempt.number}"
    row = world.parts.leases.report(transitions.register_task(lease.id, arn, world.clock.now()))
    world.clock.advance(hours * 3600)
    return row


def records(world: World, *arguments: str) -> list[dict[str, Any]]:
    done = world.run("cost", *arguments, "--json")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_stage_has_its_sum_and_what_it_was_spent_on(priced: World) -> None:
    ran(priced, "good", OutcomeClass.SUCCEEDED)
    ran(priced, "bad", OutcomeClass.PERMANENT, hours=0.5)
    (stage,) = records(priced)
    assert (stage["stage"], stage["jobs"], stage["attempts"]) == ("main", 2, 2)
    assert stage["succeeded"] == pytest.approx(2 * stage["failed"], rel=0.01)
    assert stage["total"] == pytest.approx(stage["succeeded"] + stage["failed"])
    done = priced.run("cost")
    assert done.stdout.split("\t")[:4] == ["main", "2", "2", "0.0796"]
    assert "prices: USD, us-east-1, 2026-09-20, without free tiers and taxes" in done.stderr
    assert "2 of 2 attempts: the task's own times are not known" in done.stderr
    assert "left out: what the stack costs by itself" in done.stderr


def test_each_attempt_of_a_job_shows_its_cost_and_whether_it_was_wasted(priced: World) -> None:
    first = _worked(priced, priced.claim("january"), 1)
    second = priced.retry(priced.end(first, OutcomeClass.OUT_OF_MEMORY))
    priced.end(_worked(priced, second, 1), OutcomeClass.SUCCEEDED)
    wasted, useful = records(priced, "january")
    assert (wasted["spent_on"], wasted["size"], wasted["is_exact"]) == ("failed", "small", False)
    assert (useful["spent_on"], useful["size"]) == ("succeeded", "medium")
    assert useful["task"] > 3 * wasted["task"]
    done = priced.run("cost", "january")
    assert [line.split("\t")[:5] for line in done.stdout.splitlines()] == [
        ["1", "out_of_memory", "failed", "small", "about 1h"],
        ["2", "succeeded", "succeeded", "medium", "about 1h"],
    ]


def test_jobs_are_listed_with_the_most_expensive_first(priced: World) -> None:
    for job_id, hours in (("short", 0.1), ("long", 2), ("usual", 1)):
        ran(priced, job_id, OutcomeClass.SUCCEEDED, hours)
    assert [each["job_id"] for each in records(priced, "--jobs")] == ["long", "usual", "short"]
    assert priced.run("cost", "--jobs").stdout.split("\t")[:4] == ["long", "main", "1", "1"]


def test_ages_and_the_maximum_select_jobs_and_omissions_are_reported(priced: World) -> None:
    ran(priced, "old", OutcomeClass.SUCCEEDED)
    priced.clock.advance(timedelta(days=8).total_seconds())
    ran(priced, "new", OutcomeClass.SUCCEEDED)
    priced.claim("open")
    assert {each["job_id"] for each in records(priced, "--jobs")} == {"new", "open"}
    assert {each["job_id"] for each in records(priced, "--jobs", "--older-than", "7d")} == {"old"}
    limited = priced.run("cost", "--jobs", "--newer-than", "9d", "--limit", "1")
    assert {line.split("\t")[0] for line in limited.stdout.splitlines()} == {"new", "open"}
    assert "there are more than 1 jobs: raise --limit" in limited.stderr


def test_a_custom_price_table_is_used_and_an_invalid_one_refused(
    priced: World, tmp_path: Path
) -> None:
    ran(priced, "january", OutcomeClass.SUCCEEDED)
    table, own = json.loads(USUAL.read_text()), tmp_path / "eu.json"
    own.write_text(json.dumps({**table, "region": "eu-west-1", "public_ip_hour": 1.0}))
    (dearer,), (usual,) = (
        records(priced, "january", "--prices", str(own)),
        records(priced, "january"),
    )
    assert dearer["task"] == pytest.approx(usual["task"] + 0.995)
    own.write_bytes(b"\xff\xfe{")
    priced.run("cost", "--prices", str(own), code=2, says="eu.json is no price table: ")
