"""`longhaul cost`: sums by stage, job and attempt."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longhaul.cli.insight.prices import USUAL
from longhaul.domain import transitions
from longhaul.domain.lease import Lease
from longhaul.domain.verdict import OutcomeClass
from longhaul.settings import TaskSettings, TaskSize
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
    known = replace(world, settings=world.settings.model_copy(update={"tasks": TASKS}))
    known.deploy()
    return known


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
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_stage_has_its_sum_and_what_it_was_spent_on(priced: World) -> None:
    ran(priced, "good", OutcomeClass.SUCCEEDED)
    ran(priced, "bad", OutcomeClass.PERMANENT, hours=0.5)
    (stage,) = records(priced)
    assert (stage["stage"], stage["jobs"], stage["attempts"]) == ("main", 2, 2)
    assert stage["by_fate"]["useful"] == pytest.approx(2 * stage["by_fate"]["failed"], rel=0.01)
    assert stage["total"] == pytest.approx(sum(stage["by_fate"].values()))
    done = priced.run("cost")
    heading, row = (line.split("\t") for line in done.stdout.splitlines())
    assert heading[:4] == ["stage", "jobs", "attempts", "total (USD)"]
    assert row[:4] == ["main", "2", "2", "0.0797"]
    assert "prices: USD, us-east-1, 2026-09-20, without free tiers and taxes" in done.stderr
    assert "2 of 2 attempts: the task's own times are not known" in done.stderr
    assert "left out: what the stack costs by itself" in done.stderr


def test_each_attempt_of_a_job_shows_its_cost_and_whether_it_was_wasted(priced: World) -> None:
    first = _worked(priced, priced.claim("january"), 1)
    second = priced.retry(priced.end(first, OutcomeClass.OUT_OF_MEMORY))
    priced.end(_worked(priced, second, 1), OutcomeClass.SUCCEEDED)
    wasted, useful = records(priced, "january")
    assert (wasted["fate"], wasted["size"], wasted["task_s"], wasted["by_ecs"]) == (
        "failed",
        "small",
        3600,
        False,
    )
    assert (useful["fate"], useful["size"]) == ("useful", "medium")
    assert useful["parts"]["cpu"] == pytest.approx(4 * wasted["parts"]["cpu"])
    done = priced.run("cost", "january")
    assert [line.split("\t")[:5] for line in done.stdout.splitlines()] == [
        ["attempt", "outcome", "went into", "size", "paid"],
        ["1", "out_of_memory", "failed", "small", "about 1h"],
        ["2", "succeeded", "useful", "medium", "about 1h"],
    ]
    assert "january: 0.249 USD in all, 0.0530 USD of it wasted" in done.stderr


def test_jobs_are_listed_with_the_most_expensive_first(priced: World) -> None:
    for job_id, hours in (("short", 0.1), ("long", 2), ("usual", 1)):
        ran(priced, job_id, OutcomeClass.SUCCEEDED, hours)
    assert [each["job_id"] for each in records(priced, "--jobs")] == ["long", "usual", "short"]
    assert priced.run("cost", "--jobs").stdout.splitlines()[1].split("\t")[:4] == [
        "long",
        "main",
        "SUCCEEDED",
        "1",
    ]


def test_ages_and_the_maximum_select_jobs_and_omissions_are_reported(priced: World) -> None:
    ran(priced, "old", OutcomeClass.SUCCEEDED)
    priced.clock.advance(timedelta(days=8).total_seconds())
    ran(priced, "new", OutcomeClass.SUCCEEDED)
    priced.claim("open")
    assert {each["job_id"] for each in records(priced, "--jobs")} == {"new", "open"}
    assert {each["job_id"] for each in records(priced, "--jobs", "--older-than", "7d")} == {"old"}
    limited = priced.run("cost", "--jobs", "--most", "1")
    assert limited.stdout.splitlines()[1].split("\t")[0] == "open"
    assert "there are more than 1 jobs: raise --most" in limited.stderr


def test_a_custom_price_table_is_used_and_an_invalid_one_refused(
    priced: World, tmp_path: Path
) -> None:
    ran(priced, "january", OutcomeClass.SUCCEEDED)
    table = json.loads(USUAL.read_text())
    table["fargate"]["vcpu_hour"]["arm64"] *= 2
    own = tmp_path / "eu.json"
    own.write_text(json.dumps({**table, "region": "eu-west-1"}))
    (dearer,), (usual,) = (
        records(priced, "january", "--prices", str(own)),
        records(priced, "january"),
    )
    assert dearer["parts"]["cpu"] == pytest.approx(2 * usual["parts"]["cpu"])
    own.write_text(json.dumps({**table, "fargate": {}}))
    wrong = priced.run("cost", "--prices", str(own))
    assert (
        wrong.exit_code,
        "is no price table: fargate.source: Field required" in wrong.stderr,
    ) == (2, True)
    own.write_bytes(b"\xff\xfe{")
    binary = priced.run("cost", "--prices", str(own))
    assert (binary.exit_code, "is no price table: Invalid JSON" in binary.stderr) == (2, True)
    missing = priced.run("cost", "--prices", str(tmp_path / "none.json"))
    assert (missing.exit_code, "No such file" in missing.stderr) == (1, True)


def test_a_stack_without_its_sizes_is_reported(world: World) -> None:
    ran(world, "january", OutcomeClass.SUCCEEDED)
    done = world.run("cost")
    assert "the stack has no size small: those tasks are not counted" in done.stderr


def test_nothing_recorded_costs_nothing(priced: World) -> None:
    done = priced.run("cost")
    assert (done.exit_code, done.stdout, "no job matches" in done.stderr) == (0, "", True)
