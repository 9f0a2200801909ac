"""Worlds in accounts that others govern, and those whose stages have a secret or are retired."""

import re

import pytest

from simulation.worlds.governed import GOVERNED_WORLDS, NEVER_ALLOWED, ROLES
from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.run import run
from simulation.worlds.secrets import SECRET_WORLDS
from tests.simulation.lines import history

WORLDS = {**GOVERNED_WORLDS, **SECRET_WORLDS}


@pytest.mark.parametrize(
    "what",
    [
        "what others may",
        "their rows, 0.5 s after the start",
        "their rows, 60 s after the start",
    ],
)
def test_a_task_that_is_denied_what_each_needs_is_refused_and_costs_the_job_nothing(
    what: str,
) -> None:
    lines = history(WORLDS[f"a policy denies the tasks {what}"])

    classes = re.findall(r"RELEASED.* last_class=(\w+)", "\n".join(lines))
    assert set(classes) == {"refused"}
    assert any("state=SUCCEEDED" in line for line in lines)


@pytest.mark.parametrize("how", ["denied", "encrypted"])
def test_a_job_whose_table_its_task_may_not_use_is_dead_and_says_why(how: str) -> None:
    # As with a bucket that a request names: people write which those are.
    lines = history(WORLDS[f"the catalog is {how} to task for an hour"])

    dead = next(line for line in lines if "state=DEAD" in line)
    assert "last_class=failed" in dead


@pytest.mark.parametrize("role", ROLES[1:])
def test_what_one_role_may_not_publish_another_does(role: str) -> None:
    lines = history(WORLDS[f"the catalog is denied to {role} for good"])

    assert any("glue.UpdateTable" in line or "glue.CreateTable" in line for line in lines)
    assert not any(f"{role}@" in line and "glue." in line for line in lines)


@pytest.mark.parametrize("engine", ["Fargate", "Lambda", "EMR Serverless"])
def test_a_refused_role_costs_the_jobs_of_its_stage_nothing_and_no_others_wait(
    engine: str,
) -> None:
    lines = history(WORLDS[f"the role of a stage is refused on {engine} for an hour"])

    refused = {line.partition("key=")[2].split()[0] for line in lines if "=refused" in line}
    assert {key.partition("#")[0] for key in refused} == {"clean"}
    dead = [line for line in lines if "state=DEAD" in line]
    assert dead == []


@pytest.mark.slow
def test_a_job_that_is_denied_for_good_is_dead_after_a_week_and_not_before() -> None:
    dead = next(line for line in history(NEVER_ALLOWED) if "state=DEAD" in line)
    assert "last_class=refused" in dead
    assert int(dead.split(":")[0]) >= 7 * 24


@pytest.mark.parametrize(
    "name",
    ["a policy denies the tasks a secret for six hours", "a secret is not there for two hours"],
)
def test_a_secret_that_cannot_be_read_costs_the_job_nothing(name: str) -> None:
    said = "\n".join(history(WORLDS[name]))

    assert set(re.findall(r"RELEASED.* last_class=(\w+)", said)) == {"refused"}
    assert "state=SUCCEEDED" in said


def test_an_outage_of_secrets_manager_counts_as_interruptions() -> None:
    said = "\n".join(history(WORLDS["Secrets Manager is out for an hour"]))

    assert set(re.findall(r"RELEASED.* last_class=(\w+)", said)) == {"interrupted"}


def test_what_would_have_followed_into_a_retired_stage_is_not_asked_for_once_it_is_back() -> None:
    """The job succeeds while no stage follows its own."""
    plan = Plan(
        clean_slots=2,
        jobs=(Job("j0", work_s=1_900.0, files=1),),
        acts=(
            Act(0.0, "submit", "j0"),
            Act(493.8, "retire", for_s=1_800.0, service="clean"),
        ),
        faults=(),
    )
    assert run(plan).violation is None


def test_an_attempt_that_is_refused_is_the_last_one_of_a_stage_that_was_taken_out() -> None:
    plan = Plan(
        jobs=(Job("j0", work_s=9.0, files=1),),
        acts=(
            Act(0.6, "outage", for_s=2_848.0, service="rights"),
            Act(199.6, "submit", "j0"),
            Act(201.5, "retire", work=1, service="main"),
        ),
        faults=(),
    )
    assert run(plan).violation is None
