"""Worlds in accounts that others govern."""

import re

import pytest

from simulation.worlds.generation import plan_of
from simulation.worlds.long_outages import NEVER_ALLOWED
from simulation.worlds.run import run
from simulation.worlds.systematic import RACES


def test_an_end_is_read_from_the_jobs_container_wherever_another_stands() -> None:
    for seed in (3, 4, 5):
        lines: list[str] = []
        plan = RACES[f"GuardDuty adds a container to each task ({seed})"]
        assert run(plan, trace=lines.append).violation is None
        classes = re.findall(r"RELEASED.* last_class=(\w+)", "\n".join(lines))
        assert list(dict.fromkeys(classes)) == ["out_of_memory", "interrupted", "no_output"]


def test_about_one_world_in_ten_has_other_containers() -> None:
    assert 4 < sum(plan_of(seed).sidecars for seed in range(100)) < 20


@pytest.mark.slow
def test_a_job_that_is_denied_for_good_is_dead_after_a_week_and_not_before() -> None:
    lines: list[str] = []
    assert run(NEVER_ALLOWED, trace=lines.append).violation is None
    dead = next(line for line in lines if "state=DEAD" in line)
    assert "last_class=refused" in dead
    assert int(dead.split(":")[0]) >= 7 * 24
