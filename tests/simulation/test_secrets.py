"""Worlds whose stages have a secret."""

import random
import re

import pytest

from simulation.tools.checking import all_hold
from simulation.worlds.generation import plan_of
from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.randomness import rng_of
from simulation.worlds.run import run
from simulation.worlds.secrets import SECRET_WORLDS, with_secrets


def history(name: str) -> str:
    lines: list[str] = []
    assert run(SECRET_WORLDS[name], trace=lines.append).violation is None
    return "\n".join(lines)


@pytest.mark.parametrize(
    "name",
    ["a policy denies the tasks a secret for six hours", "a secret is not there for two hours"],
)
def test_a_secret_that_cannot_be_read_costs_the_job_nothing(name: str) -> None:
    said = history(name)

    assert set(re.findall(r"RELEASED.* last_class=(\w+)", said)) == {"refused"}
    assert "state=SUCCEEDED" in said


def test_an_outage_of_secrets_manager_counts_as_interruptions() -> None:
    said = history("Secrets Manager is out for an hour")

    assert set(re.findall(r"RELEASED.* last_class=(\w+)", said)) == {"interrupted"}


def test_some_worlds_have_a_secret_that_rotates_and_now_and_then_no_job_reads() -> None:
    plan = Plan(jobs=(Job("j0"),), acts=(Act(1.0, "submit", "j0"),))

    acts = [act for seed in range(60) for act in with_secrets(random.Random(seed), plan).acts]
    assert {"set_secret", "delete_secret", "outage"} <= {act.kind for act in acts}
    assert {act.service.partition("@")[2] for act in acts if act.kind == "outage"} == {
        *("", "task", "driver", "tiny")
    }
    assert 2 < sum(plan_of(seed).secret for seed in range(100)) < 15


def test_every_invariant_holds_in_drawn_worlds_with_a_secret() -> None:
    drawn = (
        with_secrets(rng_of(seed, "secrets"), plan_of(seed))
        for seed in range(94_000_000, 94_000_030)
    )
    # Long worlds show nothing new here.
    plans = [
        plan
        for plan in drawn
        if len(plan.jobs) < 4
        and all(job.work_s < 600 for job in plan.jobs)
        and all(act.for_s < 8_000 for act in plan.acts)
    ]
    assert len(plans) > 5
    assert all_hold(plans[:8]) == min(8, len(plans))
