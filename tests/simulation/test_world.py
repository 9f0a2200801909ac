"""Worlds: the same each time, and each violation is shrunk, reported and replayed."""

import gc
import os
import re
import subprocess
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from longhaul.core import dispatch
from longhaul.core.claim import Duplicate, Probe, decide_claim
from simulation.tools.replay import read, report
from simulation.tools.shrink import Shrinker
from simulation.tools.soak import Progress
from simulation.worlds.generation import plan_of
from simulation.worlds.plan import Act, Ending, Fault, Job, Plan
from simulation.worlds.run import play, run
from simulation.worlds.systematic import SCENARIOS
from simulation.worlds.world import World
from tests.patience import DEADLINE_S

_ROOT = Path(__file__).resolve().parents[2]
_FAULTY = 55  # a seed whose world is short, and has 33 faults of 14 kinds


def history(plan: Plan) -> list[str]:
    lines: list[str] = []
    run(plan, trace=lines.append)
    return lines


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=_ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.fixture(scope="module")
def faulty() -> list[str]:
    """The history of a world with many faults, which several tests compare with others."""
    return history(plan_of(_FAULTY))


@pytest.fixture
def deletes_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dispatcher that takes a redelivery for a duplicate.

    So it lets the mapping delete the message of a running job.
    """

    def mistaken(*arguments: Any) -> Any:
        decision = decide_claim(*arguments)
        return Duplicate() if isinstance(decision, Probe) else decision

    monkeypatch.setattr(dispatch, "decide_claim", mistaken)


@pytest.mark.parametrize("hash_seed", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_world_is_the_same_each_time_and_in_each_process(faulty: list[str], hash_seed: str) -> None:
    assert len(faulty) > 100
    assert history(plan_of(_FAULTY)) == faulty
    there = python("simulation.tools.replay", str(_FAULTY), PYTHONHASHSEED=hash_seed)
    assert there.stdout.splitlines() == faulty


def test_plan_with_faults_by_place_makes_the_world_of_its_seed(faulty: list[str]) -> None:
    plan = plan_of(_FAULTY)
    found = run(plan)
    assert found.faults
    by_place = Plan.from_json(Plan(**{**vars(plan), "faults": found.faults}).to_json())
    assert history(by_place) == faulty


@pytest.mark.usefixtures("deletes_running")
def test_violation_is_shrunk_and_replays() -> None:
    jobs = tuple(Job(f"j{n}", work_s=400.0) for n in range(4))
    acts = tuple(Act(1.0 + n, "submit", job.name) for n, job in enumerate(jobs))
    plan = Plan(
        seed=5,
        jobs=jobs,
        acts=(*acts, Act(100.0, "redeliver", "j2"), Act(300.0, "redeliver", "j2")),
    )
    violation = run(plan).violation
    assert violation is not None
    assert violation.code == "S8"

    smallest = Shrinker(violation).shrink()

    assert smallest.code == "S8"
    assert [job.name for job in smallest.plan.jobs] == ["j2"]
    assert [act.kind for act in smallest.plan.acts] == ["submit", "redeliver"]
    assert "python -m simulation.tools.replay '{" in report(smallest)
    again = run(Plan.from_json(report(smallest).rpartition("replay '")[2].removesuffix("'")))
    assert again.violation == smallest


def test_finished_world_is_garbage_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A soak runs millions; a process that waits for ever would keep its whole world."""
    worlds: list[ref[World]] = []
    began = World.run
    monkeypatch.setattr(World, "run", lambda world: (worlds.append(ref(world)), began(world)))

    for name in (
        "a job is deaf",
        "a job is called dead, and works on",
        "an execution is stopped by hand",
    ):
        assert run(SCENARIOS[name]).violation is None

    gc.collect()
    assert [each() for each in worlds] == [None] * 3


@pytest.mark.slow
def test_soak_continues_an_interrupted_one_and_ends_with_a_line_for_machines(
    tmp_path: Path,
) -> None:
    state = tmp_path / "soak.json"
    Progress("drawn", first=7, wanted=4, worlds=2, seconds=1.0, virtual_s=3600.0).save(state)

    ended = python(
        "simulation.tools.soak", "--worlds=4", "--first=7", "--processes=1", f"--state={state}"
    )

    assert "continuing after 2 worlds" in ended.stderr
    assert re.fullmatch(
        r"worlds=4 violations=0 worlds_per_s=[\d.]+ virtual_hours_per_s=[\d.]+",
        ended.stdout.splitlines()[-1],
    )
    assert ended.returncode == 0


def test_invariants_hold_in_a_world_without_a_claim() -> None:
    acts = (Act(1.0, "submit", "j0"), Act(103.5, "cancel", "j0"))
    faults = (Fault("mapping#1", 1, "lost/before/all"), Fault("dispatcher@m2#1", 1, "hang/after"))

    assert run(Plan(jobs=(Job("j0"),), acts=acts, faults=faults)).violation is None


def test_two_tasks_of_an_attempt_may_have_different_faults() -> None:
    job = Job("j2", endings=(Ending("fails_to_start", 8.6), Ending("permanent", 17.6)), files=1)
    faults = (Fault("runTask@j2-2#1", 1, "lost/after/1"), Fault("task@j2-2.1", 1, "crash/before"))

    plan = Plan(seed=2015601, jobs=(job,), acts=(Act(114.3, "submit", "j2"),), faults=faults)
    assert run(plan).violation is None


def test_every_drawn_plan_is_read_as_it_is_written() -> None:
    plans = [plan_of(seed) for seed in range(300)]

    assert [read(plan.to_json()) for plan in plans] == plans


def test_world_is_named_by_a_seed_a_plan_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "world.json"
    file.write_text(plan_of(17).to_json())
    assert read("17") == read(str(file)) == plan_of(17)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nothing", "neither a seed nor a plan, and no file"),
        ("{bad", "the text: Invalid JSON"),
        ('{"jobs": [{"name": "j0", "colour": 3}]}', "jobs.0.colour"),
    ],
)
def test_argument_that_names_no_world_is_refused_in_words(text: str, problem: str) -> None:
    with pytest.raises(ArgumentTypeError, match=problem):
        read(text)


def test_what_is_sent_again_under_the_id_of_an_unnamed_job_is_that_job() -> None:
    again = [Act(at_s, "resubmit", "j0") for at_s in (300.0, 600.0, 900.0)]
    plan = Plan(jobs=(Job("j0", named=False),), acts=(Act(1.0, "submit", "j0"), *again))
    world = World(plan)
    play(world)
    assert len(world.keys_of("j0")) == 1
