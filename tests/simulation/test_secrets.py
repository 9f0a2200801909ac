"""Worlds whose stages have a secret."""

import re

import pytest

from simulation.tools.checking import all_hold
from simulation.worlds.run import run
from simulation.worlds.secrets import SECRET_WORLDS


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


def test_every_invariant_holds_in_worlds_with_a_secret() -> None:
    assert all_hold(SECRET_WORLDS.values()) == len(SECRET_WORLDS)
